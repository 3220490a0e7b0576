"""Macros that several templates share: register tiles, local memory, matrix instructions."""
