"""Elementwise operators: the table of rows, the formulas, and how a row becomes a lowering."""
