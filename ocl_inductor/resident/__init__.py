"""Tensors of the device ``ocl``: the memory they lie in, and how the host gets at it.

What runs on them is ``ocl_inductor/eager`` (operator by operator) and the runtime (plans).
"""
