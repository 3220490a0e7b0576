"""Whether the code for GPUs is what GPU compilers make fast code of, without a GPU.

``python -m gpu_check`` emits a fixed set of cases for described devices (targets.py, cases.py,
emit.py), compiles them with offline compilers (compilers/), reads the code (reading.py), and
compares with what is on record (ratchet.py). docs/gpu.md says more.
"""
