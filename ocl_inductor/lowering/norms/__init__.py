"""Normalisation layers, softmax, and the moments and norms that they share."""
