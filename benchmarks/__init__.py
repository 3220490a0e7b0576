"""Benchmarks and demonstration of the OpenCL backend; nothing here is installed with it."""
