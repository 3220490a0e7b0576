"""Pooling, its gradients, and the windows that both are made of."""
