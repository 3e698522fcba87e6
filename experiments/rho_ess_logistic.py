"""Effect of rho on ESS per second, Crank-Nicolson proposals: logistic regression, d = 10.

One of the paper's figures reversible_iact and acceptance_rate; the two share their measurements.
"""

from common import rho_against_n

if __name__ == "__main__":
    rho_against_n(
        "rho_ess_logistic",
        __doc__,
        "Logistic regression, d = 10, Crank-Nicolson proposals",
        "logistic",
        "ess_per_second",
    )
