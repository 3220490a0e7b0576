"""Graphs of single operators before a program needs them: ``ocl-inductor prebuild``."""
