"""Parameters of a plan: their copies, and how a write to one is detected."""
