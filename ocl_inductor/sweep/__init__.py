"""The model sweep: rows (YAML), building a row, and what runs and compares them."""
