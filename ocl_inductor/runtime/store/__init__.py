"""What the cache folder holds: compiled kernels and plans."""
