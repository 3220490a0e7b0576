"""Which nodes share a kernel, and in which order kernels run."""
