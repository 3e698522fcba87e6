"""Predictions from draws, block by block: expectations, contrasts, slopes, cross-validation."""
