"""OpenCL devices: their facts, the choice of one, and what the machine can do."""
