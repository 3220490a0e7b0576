"""Kernel families with holes: one ``.py`` spec beside one ``.cl.jinja`` source each."""
