"""Bags of an embedding."""
