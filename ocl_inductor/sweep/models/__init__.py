"""Models of the sweep that no installed package has, and adapters to those that packages have."""
