"""Devices that need not be present: facts to compile for, one YAML file each (described.py)."""
