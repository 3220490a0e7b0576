"""What every lowering builds on: values, context, registry, shapes, reads from memory."""
