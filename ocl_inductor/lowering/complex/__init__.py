"""Complex tensors in kernels, as pairs of real ones: see docs/complex.md."""
