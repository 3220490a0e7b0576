"""Changes to pyopencl."""
