"""Whether a model's results and gradients are right."""
