"""Factorisations of small matrices and solutions with them."""
