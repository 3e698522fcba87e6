"""Rows by the index of pandas: what is given side by side must be in the same order."""

from collections.abc import Mapping
from typing import Any

from tallbayes.errors import InputError
from tallbayes.sources.clusters import is_dask


def refuse_other_order(given: Mapping[str, Any]) -> None:
    """Raise if two pandas objects of equal length have different indexes: their rows would be taken for each other's.

    Rows are not put into order here. Whoever resets the index of one of two shuffled objects has equal labels for
    different rows, and which of the two was meant is not in the data.

    Parameters
    ----------
    given : mapping
        What was given, by the name of the argument; only what has an index is checked.
    """
    indexes = {what: values.index for what, values in given.items() if _has_index(values)}
    for what, index in list(indexes.items())[1:]:
        first, reference = next(iter(indexes.items()))
        if len(index) != len(reference) or index.equals(reference):  # lengths are checked with the shapes
            continue
        pairs = enumerate(zip(reference.tolist(), index.tolist(), strict=True))
        different = next((found for found in pairs if found[1][0] != found[1][1]), None)
        if different is None:  # the same labels, kept in another way
            continue
        row, (there, here) = different
        raise InputError(
            f"{what}: its index differs from that of {first}: row {row} is {there!r} there and "
            f"{here!r} here, so rows would be taken for others. Put both into the same order, e.g. "
            f"{what}.loc[{first}.index]; if rows belong together as they stand, give {what}.to_numpy()."
        )


def _has_index(values: Any) -> bool:
    return hasattr(values, "iloc") and hasattr(values, "index") and not is_dask(values)
