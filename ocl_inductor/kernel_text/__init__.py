"""OpenCL C as text: what a source defines, and several sources as one program."""
