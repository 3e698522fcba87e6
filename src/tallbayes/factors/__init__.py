"""Models whose rows are any function of the parameters, with bounds that the user gives."""

from tallbayes.factors.model import Factors

__all__ = ["Factors"]
