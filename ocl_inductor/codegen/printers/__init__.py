"""Operations as OpenCL C text: literals, casts, primitives, library functions."""
