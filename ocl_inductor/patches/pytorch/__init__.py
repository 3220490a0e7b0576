"""Changes to PyTorch."""
