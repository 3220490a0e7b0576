"""Parameters of a plan: what is kept of them, and how a write to one is noticed."""
