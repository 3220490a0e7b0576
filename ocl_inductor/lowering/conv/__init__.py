"""Convolutions: the operators, and the algorithms that compute them."""
