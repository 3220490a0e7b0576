"""Which buffers share memory."""
