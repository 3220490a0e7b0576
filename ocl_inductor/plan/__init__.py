"""The compiled form of a graph: the only thing that compiler and runtime share."""
