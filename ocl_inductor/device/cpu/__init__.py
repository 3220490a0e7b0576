"""Facts of a CPU, and the target of its driver's compiler."""
