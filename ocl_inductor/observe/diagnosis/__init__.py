"""Why a driver is or is not found, and whether what it offers works."""
