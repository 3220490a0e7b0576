"""Interpolation: upsampling, antialiasing and grid sampling."""
