"""Facts of GPUs only."""
