"""FX nodes to IR: one row or one function for each operator."""
