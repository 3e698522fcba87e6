"""ESS per second against n: logistic regression, d = 10 (the paper's figure nonreversible_iact)."""

from common import ess_against_n, powers

if __name__ == "__main__":
    ess_against_n("ess_logistic_10", __doc__, "Logistic regression, d = 10", "logistic", 10, powers(7, 18))
