"""Effect of rho on ESS per second, Crank-Nicolson proposals: robust regression, d = 10.

One of the supplement's rlr_reversible_iact and rlr_acceptance_rate; the two share their measurements.
"""

from common import rho_against_n

if __name__ == "__main__":
    rho_against_n(
        "rho_ess_robust", __doc__, "Robust regression, d = 10, Crank-Nicolson proposals", "robust", "ess_per_second"
    )
