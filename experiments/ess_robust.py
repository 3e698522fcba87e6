"""ESS per second against n: robust regression, d = 10 (the supplement's rlr_nonreversible_iact)."""

from common import ess_against_n, powers

if __name__ == "__main__":
    title = "Robust regression (Student-t, 4 degrees of freedom), d = 10"
    ess_against_n("ess_robust", __doc__, title, "robust", 10, powers(7, 18))
