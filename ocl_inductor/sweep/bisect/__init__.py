"""Which commit or version made a model slower, larger or wrong."""
