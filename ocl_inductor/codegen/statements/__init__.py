"""Expression DAGs as statements in nested scopes."""
