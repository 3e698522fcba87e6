"""What all estimators have in common: from arrays to a posterior, and from its draws to predictions."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tallbayes.api import sample
from tallbayes.code_cache import silence
from tallbayes.estimators.rows import INTERCEPT, Rows, with_intercept
from tallbayes.families import Family
from tallbayes.models.regression import Regression
from tallbayes.predictions.asked import EXPECTED
from tallbayes.predictions.predict import predict
from tallbayes.results.summary import checked_probs

Array = NDArray[np.float64]

INTERVAL = (0.05, 0.95)


class BayesianEstimator(BaseEstimator):
    """A regression whose posterior is drawn by `fit`; every prediction is an average over the draws."""

    prior: Any
    fit_intercept: bool
    draws: int
    chains: int
    threads: int | None
    random_state: Any

    @abstractmethod
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw from the posterior."""

    def _draw(self, rows: Rows, family: Family) -> None:
        """Draw from the posterior of checked rows, and keep the result; the data are not kept."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        names = names or [f"x{j}" for j in range(self.n_features_in_)]
        design = rows.X
        if self.fit_intercept:
            design, names = with_intercept(design), [INTERCEPT, *names]
        model = Regression(design, rows.y, family, self.prior, weights=rows.weights, names=names)
        self.tree_ = sample(
            model,
            draws=self.draws,
            chains=self.chains,
            seed=self._seed(),
            threads=self.threads,
            progress=False,
        )

    def _seed(self) -> int | None:
        """Return the seed: a number is used as it is, so that `tallbayes.sample` gives the same draws with it."""
        if self.random_state is None or isinstance(self.random_state, int | np.integer):
            return self.random_state  # type: ignore[return-value]
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _coefficients(self) -> tuple[Array, Array]:
        """Return posterior means: slopes, predictors x columns, and intercepts, one for each predictor."""
        means = np.asarray(self.tree_["posterior"]["beta"].mean(("chain", "draw")))
        means = means.reshape(-1, self.n_features_in_ + bool(self.fit_intercept))
        if self.fit_intercept:
            return means[:, 1:], means[:, 0]
        return means, np.zeros(means.shape[0])

    def _new_rows(self, X: ArrayLike) -> NDArray[Any]:
        """Return new rows after checking them, or raise if there is no posterior yet."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False))

    def _predicted(self, X: NDArray[Any], probs: Sequence[float] = (), kind: str = EXPECTED) -> Array:
        """Return rows x outcomes x (mean over all draws, quantiles)."""
        probs = checked_probs("predict_interval", probs)
        design = with_intercept(X) if self.fit_intercept else X
        draws = self.tree_["posterior"].sizes
        most = draws["chain"] * draws["draw"]
        with silence():
            table = predict(self.tree_, new_data=design, kind=kind, probs=probs, draws=most)
        columns = ["estimate", *table.columns[len(table.columns) - len(probs) :]]
        return np.asarray(table[columns], dtype=np.float64).reshape(X.shape[0], -1, len(columns))
