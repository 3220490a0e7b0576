"""Plans that are cached between processes, and their keys."""
