"""How the parameters of a regression become the predictors of a row, and what they are called in a result."""

from typing import NamedTuple

NOBODY = -1
"""In the place of a parameter's number: there is none."""


class Line(NamedTuple):
    """One predictor of a row: ``sign * (x . theta) + offset_sign * offset``, and perhaps one parameter more.

    Compiled code reads these as integers, in this order.
    """

    column: int
    """The first column of the design that it uses."""
    count: int  # type: ignore[assignment]
    """How many columns it uses."""
    parameter: int
    """The first of their coefficients."""
    sign: int = 1
    offset_sign: int = 0
    own: int = NOBODY
    """The first of the parameters one of which is added by itself; none if negative."""
    own_count: int = 0
    own_shift: int = 0
    """Which of them: this number, and the row's response added to it if `by_response`. If there is no such parameter,
    the row does not have this predictor: all of it is zero."""
    by_response: int = 0


class Output(NamedTuple):
    """Some parameters as a variable of the result."""

    name: str
    first: int
    count: int  # type: ignore[assignment]
    labels: tuple[str, ...] | None = None
    """A name for each; None for a single number."""
    log: bool = False
    """Whether the parameters are its logarithms."""
    dimension: str = "coefficient"


class Structure(NamedTuple):
    """The parameters of a regression."""

    lines: tuple[Line, ...]
    """The predictors of a row."""
    names: tuple[str, ...]
    """Of all parameters."""
    outputs: tuple[Output, ...]

    @property
    def others(self) -> list[str]:
        """Names of parameters beside the coefficients of the design that may have priors of their own by name.

        The prior of a positive number, such as a scale, is an argument of the family.
        """
        further = [output for output in self.outputs if output.name != "beta" and not output.log]
        return [name for output in further for name in self.names[output.first : output.first + output.count]]


def one_predictor(names: list[str]) -> Structure:
    """Return the structure of a regression with one linear predictor."""
    line = Line(0, len(names), 0, offset_sign=1)
    return Structure((line,), tuple(names), (Output("beta", 0, len(names), tuple(names)),))


def location_and_second(names: list[str], further: list[str], what: str, *, log: bool = False) -> Structure:
    """Return the structure of a location and a second predictor, which is constant or has columns of its own.

    It is `what`, or its logarithm.
    """
    p, r = len(names), len(further)
    location, beta = Line(0, p, 0, offset_sign=1), Output("beta", 0, p, tuple(names))
    if not r:
        second = Line(0, 0, 0, own=p, own_count=1)
        name = f"log({what})" if log else what
        return Structure((location, second), (*names, name), (beta, Output(what, p, 1, log=log)))
    every = (*names, *(f"{what}_beta[{name}]" for name in further))
    output = Output(f"{what}_beta", p, r, tuple(further), dimension=f"{what}_coefficient")
    return Structure((location, Line(p, r, p)), every, (beta, output))
