"""Choices for loop nests that keep their results: row caches, blocked sums, merged dimensions."""
