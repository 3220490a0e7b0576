"""Scheduled IR to OpenCL source, in two profiles."""
