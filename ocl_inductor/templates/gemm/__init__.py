"""Matrix products: batched, of few rows, grouped."""
