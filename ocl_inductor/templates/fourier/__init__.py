"""Fourier transforms of rows in local memory."""
