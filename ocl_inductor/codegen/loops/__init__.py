"""Loop groups as kernels: what both profiles share, and the vector profile."""
