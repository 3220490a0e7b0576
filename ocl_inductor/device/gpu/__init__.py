"""What is known only of GPUs."""
