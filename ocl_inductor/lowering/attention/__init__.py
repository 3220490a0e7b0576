"""Scaled dot product attention and its gradients."""
