"""Library functions of kernels, as OpenCL C: special functions, random numbers, float8."""
