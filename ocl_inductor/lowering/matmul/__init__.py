"""Matrix products: the operators, their operands, and the kernels that compute them."""
