"""The sweep's rows, a YAML file each, and in ``models`` what no package that pip installs has."""
