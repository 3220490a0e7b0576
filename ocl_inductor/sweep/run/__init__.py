"""Running a sweep: every model in processes of its own, and one alone."""
