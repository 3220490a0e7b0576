"""Files, folders, threads and units: nothing here knows of OpenCL or of graphs."""
