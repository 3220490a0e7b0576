"""Views, which rewrite indices, and operators that put tensors next to or into one another."""
