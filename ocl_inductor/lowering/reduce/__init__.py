"""Reductions and scans along dimensions, and distances, which are reductions of differences."""
