"""Classes: logistic regression, and softmax regression for more than two."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from tallbayes.errors import InputError
from tallbayes.estimators.base import INTERVAL, Array, BayesianEstimator
from tallbayes.estimators.rows import weighted_rows
from tallbayes.families import Bernoulli, Categorical, Family


class BayesianClassifier(ClassifierMixin, BayesianEstimator):
    """Classes by Bayesian logistic regression; probabilities are averages over the exact posterior.

    Two classes are `tallbayes.families.Bernoulli`; more are softmax regression, with the first class as reference.

    Parameters
    ----------
    link : str
        Of two classes: "logit", "probit" or "cloglog".
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
    classes_ : array
        The classes, sorted.
    coef_ : array
        Posterior means, 1 x columns; of more than two classes, classes x columns, zero for the first.
    intercept_ : array
        Posterior mean of the intercept, or of each class.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array
        Names of the columns, if they are all strings.

    Examples
    --------
    >>> import tallbayes as tb
    >>> model = tb.estimators.BayesianClassifier(random_state=1).fit(X, y)  # doctest: +SKIP
    >>> model.predict_proba(X_new)  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        link: str = "logit",
        prior: Any = None,
        fit_intercept: bool = True,
        draws: int = 1000,
        chains: int = 4,
        threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.link = link
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.chains = chains
        self.threads = threads
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw from the posterior.

        Parameters
        ----------
        X : array_like
            Rows x columns; an array or a data frame of numbers.
        y : array_like
            The class of each row.
        sample_weight : array_like or None
            Frequency weights: a row of weight 3 counts as three, one of weight 0 not at all.

        Returns
        -------
        BayesianClassifier
            The estimator itself.
        """
        design, labels = validate_data(self, X, y)
        check_classification_targets(labels)
        rows = weighted_rows(design, labels, sample_weight)
        self.classes_, codes = np.unique(rows.y, return_inverse=True)
        self._draw(rows._replace(y=codes.astype(np.float64)), self._family())
        slopes, intercepts = self._coefficients()
        if len(self.classes_) > 2:
            slopes = np.concatenate([np.zeros((1, slopes.shape[1])), slopes])
            intercepts = np.concatenate([np.zeros(1), intercepts])
        self.coef_, self.intercept_ = slopes, intercepts
        return self

    def _family(self) -> Family:
        """Return the family for so many classes, or raise if there is none."""
        count = len(self.classes_)
        if count < 2:
            raise InputError(
                f"BayesianClassifier: the rows have 1 class, {self.classes_[0]!r}, where a weight counts; expected two "
                "or more."
            )
        if count == 2:
            return Bernoulli(self.link)
        if self.link != "logit":
            raise InputError(f"link: {self.link!r} was given for {count} classes; more than two take 'logit' only.")
        return Categorical([str(name) for name in self.classes_])

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, averaged over the draws.

        Parameters
        ----------
        X : array_like
            Rows to predict.

        Returns
        -------
        array
            Rows x classes, in the order of ``classes_``.
        """
        means = self._predicted(self._new_rows(X))[:, :, 0]
        return np.concatenate([1.0 - means, means], axis=1) if means.shape[1] == 1 else means

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return the logarithms of `predict_proba`.

        Parameters
        ----------
        X : array_like
            Rows to predict.

        Returns
        -------
        array
            Rows x classes.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array_like
            Rows to predict.

        Returns
        -------
        array
            Classes.
        """
        likely = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[likely])

    def predict_interval(self, X: ArrayLike, probs: Sequence[float] = INTERVAL) -> Array:
        """Return quantiles of the probability of each row: how well the data determine it.

        Parameters
        ----------
        X : array_like
            Rows to predict.
        probs : sequence of float
            Which quantiles; a 90% interval by default.

        Returns
        -------
        array
            Rows x quantiles, of the probability of ``classes_[1]``; for more than two classes rows x classes x
            quantiles.
        """
        found = self._predicted(self._new_rows(X), probs)[:, :, 1:]
        return found[:, 0] if found.shape[1] == 1 else found
