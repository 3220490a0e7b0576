"""What the compiler decided, as plain values; as text, JSON and a page."""
