"""Optimisations of loop nests: row caches, blocked sums, merged dimensions, interleaving."""
