"""Bounds on the remainders of the expansion."""

from tallbayes.setup.bounds import Global, Local

__all__ = ["Global", "Local"]
