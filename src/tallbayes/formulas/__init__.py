"""Regressions from a formula and a table: what users of R, Bambi and statsmodels know."""

from tallbayes.formulas.model import FormulaRegression, glm
from tallbayes.formulas.restored import restore

__all__ = ["FormulaRegression", "glm", "restore"]
