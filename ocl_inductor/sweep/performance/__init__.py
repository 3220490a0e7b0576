"""How fast a model is, and where its time goes."""
