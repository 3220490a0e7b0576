"""Where tensors and scratch memory lie on a device, and when memory is used again."""
