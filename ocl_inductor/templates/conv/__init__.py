"""Convolutions and their weight gradients."""
