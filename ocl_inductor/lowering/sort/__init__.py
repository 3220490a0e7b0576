"""Sorting, selection by rank, and searches in sorted sequences."""
