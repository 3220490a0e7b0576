"""A kernel's statements as a tree: its nodes, its printer, and what is checked of it."""
