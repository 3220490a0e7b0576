"""Scaled dot product attention: forward, backward, decoding."""
