"""Launches of a plan, combined, chained and made generic over sizes."""
