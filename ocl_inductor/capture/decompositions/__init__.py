"""Which aten operators are replaced by simpler ones, and the replacements of our own."""
