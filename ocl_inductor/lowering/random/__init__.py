"""Random numbers as functions of a seed."""
