"""FX nodes to IR: one row or one function for each operator.

``interpret.py`` walks a graph; ``families.py`` lists the modules that register lowerings. Folders
are families of operators, above ``core``, which all of them build on, and below ``graph``, which
knows what the walk needs to know of a whole graph.
"""
