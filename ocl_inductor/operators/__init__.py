"""The operators of our own, what is common to all, and the table from operators to lowerings.

Below the stages: capture and passes put these operators into graphs, lowering makes kernels of
them. A file defines one operator with its gradient: schema, shapes, and what it computes on the
host.
"""
