"""ESS per second against n: logistic regression, d = 20 (the supplement's 20-dimensional figure)."""

from common import ess_against_n, powers

if __name__ == "__main__":
    ess_against_n("ess_logistic_20", __doc__, "Logistic regression, d = 20", "logistic", 20, powers(8, 18))
