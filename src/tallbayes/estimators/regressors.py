"""Numbers: linear regression, the same with outliers, and counts."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.validation import validate_data

from tallbayes.checks import is_number
from tallbayes.errors import InputError
from tallbayes.estimators.base import INTERVAL, Array, BayesianEstimator
from tallbayes.estimators.rows import Rows, fits_exactly, weighted_rows
from tallbayes.families import Family, Gaussian, Poisson, StudentT
from tallbayes.predictions.asked import EXPECTED, PREDICTIVE
from tallbayes.priors import InverseGamma


class _Regressor(RegressorMixin, BayesianEstimator):
    """What regressors have in common."""

    coef_: Array
    intercept_: float

    @property
    def _fewest_rows(self) -> int:
        """How many rows there must be."""
        return 1

    @abstractmethod
    def _family(self, rows: Rows) -> Family:
        """Return the family."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : array_like
            Rows x columns; an array or a data frame of numbers.
        y : array_like
            Responses.
        sample_weight : array_like or None
            Frequency weights: a row of weight 3 counts as three, one of weight 0 not at all.

        Returns
        -------
        Self
            The estimator itself.
        """
        design, responses = validate_data(self, X, y, y_numeric=True, ensure_min_samples=self._fewest_rows)
        rows = weighted_rows(design, responses, sample_weight)
        self._draw(rows, self._family(rows))
        slopes, intercepts = self._coefficients()
        self.coef_, self.intercept_ = slopes[0], float(intercepts[0])
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return what is expected of each row, averaged over the draws.

        Parameters
        ----------
        X : array_like
            Rows to predict.

        Returns
        -------
        array
            One number for each row.
        """
        return self._predicted(self._new_rows(X))[:, 0, 0]

    def predict_interval(self, X: ArrayLike, probs: Sequence[float] = INTERVAL, *, kind: str = PREDICTIVE) -> Array:
        """Return quantiles for each row.

        Parameters
        ----------
        X : array_like
            Rows to predict.
        probs : sequence of float
            Which quantiles; a 90% interval by default.
        kind : str
            "predictive": of a response that may come, with its noise; "expected": of what is expected of it.

        Returns
        -------
        array
            Rows x quantiles.
        """
        if kind not in {EXPECTED, PREDICTIVE}:
            raise InputError(f"kind: {kind!r} was given; expected {PREDICTIVE!r} or {EXPECTED!r}.")
        return self._predicted(self._new_rows(X), probs, kind)[:, 0, 1:]


class _Linear(_Regressor):
    """Responses around the predictor itself."""

    scale: Any
    scale_: float

    @property
    def _fewest_rows(self) -> int:
        """Two, if the scale of the noise is to be learned from them."""
        return 1 if is_number(self.scale) else 2

    @abstractmethod
    def _with_scale(self, scale: Any) -> Family:
        """Return the family with a scale that is known, has a prior, or the family's own prior."""

    def _family(self, rows: Rows) -> Family:
        family = self._with_scale(self.scale)
        if self.scale is not None or not fits_exactly(rows, bool(self.fit_intercept)):
            return family
        unit = family.predictor_scale(rows.y, np.ones(1) if rows.weights is None else rows.weights)
        if not unit > 0.0:
            return family  # which says what is wrong
        warnings.warn(
            f"{type(self).__name__}: the columns fit every response exactly, so the data say nothing of the noise, or "
            "that there is none. Its scale has an inverse gamma prior that weighs as one row whose residual is the "
            "spread of the responses. Use more rows or fewer columns, or give scale, a number or a prior.",
            stacklevel=4,
        )
        return self._with_scale(InverseGamma(0.5, 0.5 * unit**2))

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : array_like
            Rows x columns; an array or a data frame of numbers.
        y : array_like
            Responses.
        sample_weight : array_like or None
            Frequency weights: a row of weight 3 counts as three, one of weight 0 not at all.

        Returns
        -------
        Self
            The estimator itself.
        """
        super().fit(X, y, sample_weight)
        posterior = self.tree_["posterior"]
        self.scale_ = float(posterior["scale"].mean() if "scale" in posterior else self.scale)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return the predictor at the posterior mean, which is its average over the draws.

        Parameters
        ----------
        X : array_like
            Rows to predict.

        Returns
        -------
        array
            One number for each row.
        """
        return np.asarray(self._new_rows(X) @ self.coef_ + self.intercept_)


class BayesianRegressor(_Linear):
    """Real responses with normal noise: Bayesian linear regression.

    Parameters
    ----------
    scale : float or Prior or None
        Standard deviation of the noise: unknown, with a weakly informative prior, by default; or unknown with a prior,
        e.g. ``tb.priors.HalfNormal(10)``; or a known number.
    prior : Prior or sequence of Prior or mapping or None
        Prior of the coefficients, as `tallbayes.Regression` takes it: one for all, the intercept too, a list, or a
        dictionary from names to priors: "Intercept" and the columns of a data frame, or x0, x1, ... Weakly informative
        by default.
    fit_intercept : bool
        Whether to add a column of ones.
    draws : int
        Draws to keep from each chain.
    chains : int
        Number of chains.
    threads : int or None
        Threads to use; defaults to every core. Draws do not depend on it.
    random_state : int or numpy.random.RandomState or None
        Seed of the draws; a fresh one by default.

    Attributes
    ----------
    tree_ : xarray.DataTree
        The result of `tallbayes.sample`: draws, diagnostics; `tallbayes.summary` and `tallbayes.verdict` take it.
    coef_ : array
        Posterior means, one for each column.
    intercept_ : float
        Posterior mean of the intercept; 0 without one.
    scale_ : float
        Posterior mean of the noise's scale, or the number that was given.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array
        Names of the columns, if they are all strings.
    """

    def __init__(
        self,
        *,
        scale: Any = None,
        prior: Any = None,
        fit_intercept: bool = True,
        draws: int = 1000,
        chains: int = 4,
        threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.scale = scale
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.chains = chains
        self.threads = threads
        self.random_state = random_state

    def _with_scale(self, scale: Any) -> Family:
        return Gaussian(scale=scale)


class RobustRegressor(_Linear):
    """Real responses with outliers: Bayesian linear regression with Student-t noise.

    Parameters
    ----------
    df : float
        Degrees of freedom of the noise: the smaller, the less a far response counts.
    scale : float or Prior or None
        Scale of the noise: unknown, with a weakly informative prior, by default; or unknown with a prior,
        e.g. ``tb.priors.HalfNormal(10)``; or a known number.
    prior : Prior or sequence of Prior or mapping or None
        Prior of the coefficients, as `tallbayes.Regression` takes it: one for all, the intercept too, a list, or a
        dictionary from names to priors: "Intercept" and the columns of a data frame, or x0, x1, ... Weakly informative
        by default.
    fit_intercept : bool
        Whether to add a column of ones.
    draws : int
        Draws to keep from each chain.
    chains : int
        Number of chains.
    threads : int or None
        Threads to use; defaults to every core. Draws do not depend on it.
    random_state : int or numpy.random.RandomState or None
        Seed of the draws; a fresh one by default.

    Attributes
    ----------
    tree_ : xarray.DataTree
        The result of `tallbayes.sample`: draws, diagnostics; `tallbayes.summary` and `tallbayes.verdict` take it.
    coef_ : array
        Posterior means, one for each column.
    intercept_ : float
        Posterior mean of the intercept; 0 without one.
    scale_ : float
        Posterior mean of the noise's scale, or the number that was given.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array
        Names of the columns, if they are all strings.
    """

    def __init__(
        self,
        *,
        df: float = 4.0,
        scale: Any = None,
        prior: Any = None,
        fit_intercept: bool = True,
        draws: int = 1000,
        chains: int = 4,
        threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.df = df
        self.scale = scale
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.chains = chains
        self.threads = threads
        self.random_state = random_state

    def _with_scale(self, scale: Any) -> Family:
        return StudentT(df=self.df, scale=scale)


class CountRegressor(_Regressor):
    """Counts, or rates: Bayesian Poisson regression with a log link.

    Counts over different exposures are given as rates, ``y = counts / exposure``, with ``sample_weight=exposure``: the
    posterior is that of the counts, and predictions are for an exposure of 1.

    Parameters
    ----------
    prior : Prior or sequence of Prior or mapping or None
        Prior of the coefficients, as `tallbayes.Regression` takes it: one for all, the intercept too, a list, or a
        dictionary from names to priors: "Intercept" and the columns of a data frame, or x0, x1, ... Weakly informative
        by default.
    fit_intercept : bool
        Whether to add a column of ones.
    draws : int
        Draws to keep from each chain.
    chains : int
        Number of chains.
    threads : int or None
        Threads to use; defaults to every core. Draws do not depend on it.
    random_state : int or numpy.random.RandomState or None
        Seed of the draws; a fresh one by default.

    Attributes
    ----------
    tree_ : xarray.DataTree
        The result of `tallbayes.sample`: draws, diagnostics; `tallbayes.summary` and `tallbayes.verdict` take it.
    coef_ : array
        Posterior means, one for each column.
    intercept_ : float
        Posterior mean of the intercept; 0 without one.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array
        Names of the columns, if they are all strings.
    """

    def __init__(
        self,
        *,
        prior: Any = None,
        fit_intercept: bool = True,
        draws: int = 1000,
        chains: int = 4,
        threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.chains = chains
        self.threads = threads
        self.random_state = random_state

    def _family(self, rows: Rows) -> Family:
        if not np.any(rows.y % 1.0):
            return Poisson()
        counts = rows.y if rows.weights is None else rows.y * rows.weights
        if not np.allclose(counts, np.round(counts), rtol=1e-9, atol=1e-9):
            warnings.warn(
                "CountRegressor: y has fractions that are no count divided by its sample_weight. Point predictions are "
                "those of a Poisson likelihood with such responses; intervals hold only if their variance equals "
                "their mean.",
                stacklevel=4,
            )
        return Poisson(rates=True)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of the Poisson deviance that is explained: 1 at best, 0 for predicting the mean.

        Parameters
        ----------
        X : array_like
            Rows to predict.
        y : array_like
            Their counts.
        sample_weight : array_like or None
            Weights of the rows.

        Returns
        -------
        float
            The share.
        """
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn wants to know of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
