"""Parts of the pipeline (compile.py) that are no stage of their own."""
