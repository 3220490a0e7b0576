"""Which aten operators are replaced by simpler ones, and our own replacements."""
