"""Communication between processes for ``ocl`` tensors: through the host's memory, by gloo.

PyTorch sends every collective through an operator of its namespace ``c10d``, whether it comes from
``torch.distributed``, from functional collectives, from the C++ code of
``DistributedDataParallel`` or from a DTensor. Their kernels for ``ocl`` (``collectives.py``) make
the arguments tensors of the CPU (``staging.py``), call the same operator again, and return a Work
that is done when the results are in the memory of the ``ocl`` tensors (``works.py``).
``groups.py`` tells PyTorch which process groups take such tensors.
"""
