"""Bounds on the remainders of the expansion."""

from tallbayes.surrogate.bounds import Global, Local

__all__ = ["Global", "Local"]
