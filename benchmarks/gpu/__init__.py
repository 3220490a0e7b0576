"""One session on a real GPU: what the OpenCL code reaches beside PyTorch's own CUDA code."""
