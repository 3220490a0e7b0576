"""Placement of tensors and scratch memory on a device, and reuse of memory."""
