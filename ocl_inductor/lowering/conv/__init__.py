"""Convolutions and their gradients: the operators, and the algorithms that compute them."""
