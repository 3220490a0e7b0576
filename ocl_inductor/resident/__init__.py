"""Tensors of the device ``ocl``: their memory, and the host's access to it.

Computation on them is in ``ocl_inductor/eager`` (operator by operator) and the runtime (plans).
"""
