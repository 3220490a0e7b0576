"""Rows of the sweep: YAML files to modules, inputs and losses."""
