"""Every operator of PyTorch's own list, compiled by this backend and compared with eager."""
