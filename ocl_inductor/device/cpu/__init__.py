"""What a CPU is, and what its driver's compiler makes code for."""
