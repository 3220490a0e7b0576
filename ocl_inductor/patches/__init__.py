"""Everything that changes PyTorch, pyopencl or the process: a folder each, a file for each change.

A *patch* replaces or wraps something that another package or the interpreter already has, hooks
into what runs outside of our own compilation, or changes a state that the whole process shares.
``table.py`` lists all of them; ``switch.py`` says which are off. What goes through an interface for
extensions (operators, log names, kinds of cache artefacts, the device ``ocl`` itself) is none.
"""
