"""What can go wrong, as exceptions that say what to do next."""

__all__ = [
    "CertificationError",
    "ExactnessError",
    "InputError",
    "MissingPackageError",
    "NoModeError",
    "SlowMixingWarning",
    "TallbayesError",
]


class TallbayesError(Exception):
    """Base class of every error that tallbayes raises on purpose."""


class InputError(TallbayesError, ValueError):
    """Data or an argument that cannot be used; the message names the row, column or argument.

    ``row`` is the number of the row that cannot be used, if it is about one: a source can then say where it is.
    """

    def __init__(self, *message: object, row: int | None = None) -> None:
        super().__init__(*message)
        self.row = row


class NoModeError(TallbayesError, ValueError):
    """The posterior has no mode, so (for a flat prior) it does not exist."""


class ExactnessError(TallbayesError, RuntimeError):
    """A remainder exceeded its proved bound: the draws would not be exact, so none are returned."""


class CertificationError(TallbayesError, ValueError):
    """A bound of a user's own likelihood could not be proved; the message says which, and what can be done."""


class MissingPackageError(TallbayesError, ImportError):
    """An optional package is needed; the message says which extra installs it."""


class SlowMixingWarning(UserWarning):
    """Chains of a run disagree, stood still, or gave so few effective draws that its means and intervals are unsafe."""
