"""Parts of the pipeline (compile.py) that are not stages."""
