"""Changes to the process: the interpreter, its memory, its environment."""
