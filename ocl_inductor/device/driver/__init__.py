"""OpenCL drivers: finding their libraries, what they list, opening them."""
