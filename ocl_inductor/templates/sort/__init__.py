"""Sorting and selection along rows."""
