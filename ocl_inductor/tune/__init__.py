"""Measurements of the device."""
