"""Predictions from draws, block by block: what is expected of rows, contrasts, slopes, and how well rows are predicted."""
