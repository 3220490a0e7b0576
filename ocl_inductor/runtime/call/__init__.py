"""One call of a plan: binding tensors, enqueuing kernels, results."""
