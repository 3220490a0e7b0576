"""``python -m benchmarks.field TABLE``: the device ``ocl`` as programs use it, a table each.

On a CPU's driver the tables show what the device costs beside eager, not how fast a card is.
"""
