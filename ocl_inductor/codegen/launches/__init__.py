"""Launches of a plan: combo kernels, serial kernels, and shape-generic kernels."""
