"""Replays plans. Imports nothing of the compiler."""
