"""Loop groups as kernels of work-groups: the simt profile."""
