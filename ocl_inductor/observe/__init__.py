"""Observability: reports, profiles, diagnosis, the debug folder, explanations."""
