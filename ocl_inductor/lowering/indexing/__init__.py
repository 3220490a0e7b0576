"""Reads and writes at computed positions: gather, scatter, embedding, histograms, segments."""
