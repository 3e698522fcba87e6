"""The contract of a family of likelihoods."""

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.families.curve import jet
from tallbayes.families.rows import Extremes, Rows
from tallbayes.families.structure import Line, Structure, one_predictor

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Family(ABC):
    """A likelihood: which responses there are, and their potential as a function of a row's predictors."""

    convex: bool
    """Whether the potential is a convex function of the predictors; if not, the mode is searched for with majorising
    steps."""
    parabola_slope: float | None = None
    """a, if g(t) - a t is a concave function of t^2, so that g has a parabola above it that touches at any t: 1/2 for
    log(1 + e^t) (Jaakkola and Jordan), 0 for many even g. None if it is not, or not known."""

    endless = ("", "")
    """A further parameter that no data keep from its limit, and what the family is there; its prior must be proper."""
    in_place_of_intercept = ""
    """What a family has in the place of an intercept, so that a constant column is not identified beside it."""

    @property
    def title(self) -> str:
        """What users call it, for messages."""
        return type(self).__name__

    @property
    @abstractmethod
    def rows(self) -> Any:
        """What passes over rows and compiled code need of the family (`families/rows.py`)."""

    def for_responses(self, y: Vector | None) -> "Family":
        """Return the family as these responses make it, None for those of a source: itself, mostly."""
        return self

    def starting_parameters(self, y: Vector, columns: int) -> Vector | None:
        """Return where the search for the mode starts, if that is not least squares on `starting_predictor`."""
        return None

    def starting_second(self, y: Vector) -> float | None:
        """Return where the search starts for a second predictor, if that is not the scale of residuals."""
        return None

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is called; empty if it has no meaning."""
        return "exp(coefficient)"

    def further_priors(self) -> Any:
        """Return the prior of parameters beside coefficients and scale, if the user gave one."""
        return None

    def structure(self, names: list[str], further: list[str]) -> Structure:
        """Return how parameters become predictors, from the names of a design's columns and of further ones."""
        if further:
            raise InputError(f"scale_design: {self!r} has no scale that columns could speak of; leave it out.")
        return one_predictor(names)

    @abstractmethod
    def unsupported(self, y: Vector, first: int = 0) -> NDArray[np.bool_]:
        """Return which responses are outside the support; NaN and infinities are refused before.

        The responses are those of the rows from number ``first`` on.
        """

    def check_rows(self, n: int) -> None:  # noqa: B027
        """Raise if the family was made for another number of rows; most are made for any."""

    @property
    @abstractmethod
    def support(self) -> str:
        """The responses the family takes, in words, for error messages."""

    @abstractmethod
    def starting_predictor(self, y: Vector) -> Vector:
        """Return a rough guess of each row's linear predictor, from which the search for the mode starts."""

    def encode(self, y: Vector, weight: Vector, first: int | None = None) -> tuple[Vector, Vector]:
        """Return responses and weights (one, or one for each row) as ``coefficients`` takes them: as they are.

        The responses are all of them, or those of the rows from number ``first`` on.
        """
        return y, weight

    def predictor_level(self, y: Vector) -> float:
        """Return how far from 0 responses lie, where they are on the predictor's scale; 0 by default."""
        return 0.0

    def predictor_scale(self, y: Vector, weights: Vector) -> float:
        """Return how far predictors typically spread, the unit of the default prior; 1 on a log-odds scale.

        The responses are all of them, or of many rows a sample that is spread over all.
        """
        return 1.0

    def supremum(self, m: int) -> float:
        """Return the largest absolute m-th derivative of the potential anywhere, where global bounds use it."""
        return float("inf")

    # -- predictions --

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Names of the classes of a response; None where it is a number."""
        return None

    @property
    def predictor_labels(self) -> tuple[str, ...]:
        """What the predictors of `predicting` are called, where there are several."""
        return ()

    def predicting(self, names: list[str], further: list[str]) -> tuple[Line, ...]:
        """Return the predictors that the distribution of a response is a function of: those of rows, mostly.

        Parameters
        ----------
        names : list of str
            Names of the design's columns.
        further : list of str
            Names of further columns.

        Returns
        -------
        tuple of Line
            What `expected` and `draw` take.
        """
        return self.structure(names, further).lines

    def expected(self, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of a response, given its predictors.

        Parameters
        ----------
        eta : array
            Predictors, q x any shape; where there are several rows they come last.

        Returns
        -------
        array
            Means, of the shape that eta has without its first dimension; of classes their probabilities, classes first.
        """
        self._not_known("mean")

    def draw(self, rng: np.random.Generator, eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one random response for each of the predictors.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where chance comes from.
        eta : array
            Predictors, q x any shape; where there are several rows they come last.

        Returns
        -------
        array
            Responses, in the code of `encode`, of the shape that eta has without its first dimension.
        """
        self._not_known("distribution")

    def log_constant(self, y: Vector) -> Vector:
        """Return what minus the potential lacks of the log-likelihood, by response (in the code of `encode`).

        Parameters
        ----------
        y : array
            Responses.

        Returns
        -------
        array
            One number for each response.
        """
        self._not_known("normalising constant")

    def of_rows(self, rows: slice | NDArray[np.int64]) -> Self:
        """Return the family of some of the rows it was made for: itself, unless rows differ."""
        return self

    def _not_known(self, what: str) -> NoReturn:
        raise InputError(
            f"{self}: the {what} of a response is not known for this family. Predict the linear predictor, with "
            "kind='linear', and transform its draws."
        )


class CurveFamily(Family):
    """A likelihood whose row potential is one scalar function of the linear predictor.

    To add one: write its curve (a NamedTuple with the functions of ``families/curve.py``), and a
    subclass that says which responses it takes and where the derivatives of g have their extremes. No bound
    is derived by hand: every supremum is the largest value over end points and critical points.
    """

    pieces: tuple[float, ...] = (0.0,)
    """The pieces that ``coefficients`` may return."""

    @property
    @abstractmethod
    def curve(self) -> Any:
        """The curve of ``families/curve.py``: parameters of g, found by its type in compiled code."""

    @property
    def rows(self) -> Any:
        """What passes over rows and compiled code need of the family."""
        return Rows(self.curve, Extremes(self.extremes))

    @abstractmethod
    def critical_points(self, m: int) -> Vector:
        """Return every point where the m-th derivative of g (m = 1 to 4) has a local extreme, in any piece.

        More points do no harm: the derivative takes its value there, so a supremum stays exact.
        """

    def extremes(self, m: int) -> Matrix:
        """Return the critical points of the m-th derivative, and in a line for each piece its values there."""
        points = self.critical_points(m)
        values = [[jet(self.curve, float(t), piece)[m - 1] for t in points] for piece in self.pieces]
        return np.array([points, *values], dtype=np.float64)

    def supremum(self, m: int) -> float:
        """Return the largest absolute value of the m-th derivative of g on the whole line (inf if none)."""
        points = np.concatenate([self.critical_points(m), [-np.inf, np.inf]])
        return float(max(abs(jet(self.curve, float(t), p)[m - 1]) for t in points for p in self.pieces))
