"""Kernels from the cache folder, or from a driver's compiler in a child process."""
