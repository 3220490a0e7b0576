"""A walk over one FX graph: its state, its results, and what stays with the host."""
