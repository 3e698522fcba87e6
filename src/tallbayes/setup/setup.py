"""A set-up: all that passes over the rows of a model have found, each part when it is first needed, and only once."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tallbayes.errors import InputError
from tallbayes.models import passes
from tallbayes.models.base import Model
from tallbayes.models.subsamples import FEW_ROWS
from tallbayes.setup.bounds import NO_COLUMNS, AllBounds, Global, Local, SamePass
from tallbayes.setup.bundles import Bundles, bundled
from tallbayes.setup.core import DistinctRows
from tallbayes.setup.expansion import Expansion, cubic_from, expand, third_order_term
from tallbayes.setup.fingerprint import fingerprint
from tallbayes.setup.metric import Metric, metric_at
from tallbayes.setup.mode import Mode, find_mode
from tallbayes.setup.sketch import Sketch, aligned_codes, draw_sketch, empty_sketch, put_in_order
from tallbayes.setup.tails import MOST_CORE, Tails, find_tails
from tallbayes.sources.base import RANDOM_ACCESS
from tallbayes.sources.supply import Drawing, Stream

Vector = NDArray[np.float64]

FORMAT = 7
"""Of saved set-ups."""
UNREADABLE = (ValueError, KeyError, EOFError, TypeError, BadZipFile)
"""What reading a file that is no set-up, or half of one, may raise."""
Key = tuple[Global | Local, int, bool]
"""Kind and order of bounds, and whether core rows are left out."""
KEPT = 2
"""Sets of bounds that are kept: a wider ball is tried beside the one before."""


class Setup:
    """Mode, metric, expansions and bounds of a model.

    Parameters
    ----------
    model : Model
        The model.
    threads : int or None
        Threads for passes over the rows; what they find does not depend on it.
    """

    def __init__(self, model: Model, threads: int | None = None) -> None:
        self.model, self.threads = model, threads
        self._bounds: dict[Key, AllBounds] = {}
        self._sketch: Sketch | None = None
        self.planned: tuple[Any, Any] | None = None
        """What a run was last planned for, and the plan."""
        self.passes = model.checking_passes
        """Passes over all rows so far, those that checked the data included."""
        self.seconds = 0.0
        """What set-up and choice of a plan took, whenever they took passes; without compilation."""
        self._counting = False
        self._parts: dict[Any, Any] = {}
        self._supplies: dict[Key, Any] = {}
        self._bundles: dict[Key, Bundles] = {}
        self.streams: dict[Stream, int] = {}
        """Streams of rows that chains will need, with how many rows each: drawn in the pass that gives the bounds."""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the passes within a block as those of the set-up."""
        if self._counting:  # within such a block already
            yield
            return
        before, self._counting = self.model.source.passes, True
        try:
            yield
        finally:
            self.passes += self.model.source.passes - before
            self._counting = False

    def once(self, key: Any, compute: Callable[[], Any], *, of_chains: bool = False) -> Any:
        """Return what is computed from all rows of this model, computed when first asked for and then kept.

        Passes are counted, unless they are those of chains.
        """
        if key not in self._parts:
            with nullcontext() if of_chains else self.counting():
                self._parts[key] = compute()
        return self._parts[key]

    def few_rows(self, size: int) -> Model:
        """Return the model of a subsample of its rows, for forecasts."""
        source = self.model.source
        return self.once(("few rows", size), lambda: self.model.part_of(source.subsample(min(source.n, size))))

    @cached_property
    def mode(self) -> Mode:
        """Where the posterior is largest."""
        with self.counting():
            return find_mode(self.model, threads=self.threads)

    @cached_property
    def metric(self) -> Metric:
        """Coordinates in which the posterior is close to a standard normal."""
        with self.counting():
            return metric_at(self.model, self.mode, self.tails.order(self.model.d), threads=self.threads)

    @cached_property
    def tails(self) -> Tails:
        """Coefficients with long tails, and the rows that speak of them."""
        mode = self.mode
        with self.counting():
            return find_tails(self.model, mode, self.few_rows(FEW_ROWS), threads=self.threads)

    @cached_property
    def cubic(self) -> Vector:
        """The third-order term of the expansion."""
        with self.counting():
            return third_order_term(self.model, self.metric, threads=self.threads)

    def expansion(self, order: int) -> Expansion:
        """Return the expansion of an order, 0 to 3."""
        return expand(self.model, self.metric, order, self.cubic if order == 3 else None)

    def bounds(self, kind: Global | Local, order: int, *, core: bool = False) -> AllBounds:
        """Return the bounds of what an expansion leaves out; with a core, of the other rows only."""
        key = kind, order, core
        if key not in self._bounds:
            self._compute(key)
        return self._bounds[key]

    def _compute(self, key: Key, sketch: Sketch | None = None) -> None:
        """Compute bounds, and a sketch in the same pass; of other bounds only the last are kept."""
        kind, order, core = key
        given: dict[str, Any] = {"sketch": sketch, "core": self.tails.first if core else NO_COLUMNS}
        given = given if isinstance(kind, Local) else {}
        metric, source = self.metric, self.model.source
        if RANDOM_ACCESS not in source.offers:
            self._in_one_pass(key, given)
        else:
            with self.counting():
                self._bounds[key] = kind.of_rows(self.model, metric, order, threads=self.threads, **given)
        for old in list(self._bounds)[:-KEPT]:
            self._bounds.pop(old)
            self._supplies.pop(old, None)
            self._bundles.pop(old, None)

    def _in_one_pass(self, key: Key, given: dict[str, Any]) -> None:
        """Compute bounds and third-order term, and draw the rows that chains will need, in the same pass."""
        kind, order, _ = key
        model = self.model
        supply = model.source.supply(None, threads=self.threads)
        requests = supply.reserve(self.streams)
        thirds = order == 3 and model.predictors.designed and "cubic" not in self.__dict__
        with self.counting():
            found = kind.of_rows(
                model, self.metric, order, threads=self.threads, same_pass=SamePass(requests, thirds), **given
            )
        if found.thirds is not None:
            self.__dict__["cubic"] = cubic_from(model, self.metric, found.thirds)
        supply.drawing = found.drawing
        if found.slots is not None:
            supply.fill(requests, found.slots)
        self._bounds[key], self._supplies[key] = found._replace(thirds=None, slots=None), supply

    def supply(self, kind: Global | Local, order: int, *, core: bool = False, table: bool = True) -> Any:
        """Return rows drawn in proportion to their bounds; without a table, all rows that are in memory, to be read."""
        key = kind, order, core
        if not table:
            source: Any = self.model.source
            return source.supply(self.bounds(kind, order, core=core).drawing, table=False)
        if key not in self._supplies:
            drawing = self.bounds(kind, order, core=core).drawing
            self._supplies[key] = self.model.source.supply(drawing, threads=self.threads)
        return self._supplies[key]

    def _sketched(self, key: Key) -> Sketch:
        """Return the sketch of all rows; bounds that were not found before are found in the same pass."""
        if self._sketch is None:
            model = self.model
            if key not in self._bounds:
                sketch = empty_sketch(model.n, model.d)
                self._compute(key, sketch)
            else:
                with self.counting():
                    sketch = draw_sketch(model, self.metric, threads=self.threads)
            psi = self._bounds[key].drawing.psi
            assert psi is not None
            put_in_order(sketch, psi, self.threads)
            self._sketch = sketch
        return self._sketch

    def bundles(self, kind: Global | Local, order: int, *, core: bool = False) -> Bundles:
        """Return the rows of the sketch in bundles, with a bound for each."""
        key = kind, order, core
        if key not in self._bundles:
            sketch = self._sketched(key)
            drawing = self.bounds(kind, order, core=core).drawing
            self._bundles[key] = bundled(sketch, drawing, self.model.d, order, threads=self.threads)
        return self._bundles[key]

    @cached_property
    def fingerprint(self) -> str:
        """What tells this model from another, by a pass over its rows."""
        return fingerprint(self.model, threads=self.threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was found so far, as arrays and JSON in one file: complete, or not at all.

        Parameters
        ----------
        path : str or path
            The file, e.g. ``"setup.npz"``.
        """
        arrays: dict[str, Any] = {}
        facts: dict[str, Any] = {"format": FORMAT, "fingerprint": self.fingerprint, "bounds": []}
        if "mode" in self.__dict__:
            arrays |= {f"mode.{name}": value for name, value in self.mode._asdict().items()}
        if "tails" in self.__dict__:
            tails = self.tails
            arrays |= {"tails.first": tails.first, "tails.last": tails.last}
            arrays |= {"tails.table": tails.rows.table, "tails.weight": tails.rows.weight}
            arrays["tails.whole"] = np.array([tails.whole, tails.tied])
        if "metric" in self.__dict__:
            arrays |= {f"metric.{name}": getattr(self.metric, name) for name in Metric.__dataclass_fields__}
        if "cubic" in self.__dict__:
            arrays["cubic"] = self.cubic
        for number, ((kind, order, core), found) in enumerate(self._bounds.items()):
            asked = None if isinstance(kind, Global) or kind.radius is None else float(kind.radius).hex()
            numbers = [float(x).hex() for x in (*found.sums, found.radius)]
            facts["bounds"].append(
                {"local": kind.local, "asked": asked, "order": order, "core": core, "numbers": numbers}
            )
            if found.drawing.psi is not None:
                arrays[f"bounds.{number}.psi"] = found.drawing.psi
            arrays[f"bounds.{number}.shares"] = found.drawing.shares
        if self._sketch is not None:
            arrays |= {f"sketch.{name}": value for name, value in self._sketch._asdict().items()}
        arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
        path = Path(path)
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no directory {path.parent}; make it first.")
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Model) -> "Setup":
        """Read a set-up that was saved, and give it to a model: `tallbayes.sample` then needs none of its passes.

        Parameters
        ----------
        path : str or path
            The file.
        model : Model
            The model it was made for, on the same data.

        Returns
        -------
        Setup
            The set-up, which the model keeps.
        """
        setup = cls(model)
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            facts = json.loads(arrays.pop("facts").tobytes())
            kept = facts["format"], facts["fingerprint"]
        except UNREADABLE as error:
            raise _not_a_setup(path, error) from None
        if kept != (FORMAT, setup.fingerprint):
            raise InputError(
                f"{os.fspath(path)} is the set-up of another model: rows, columns, family or prior differ, or it was "
                "written by another version. Set the model up again: tb.sample does when it has none."
            )
        try:
            setup._restore(arrays, facts["bounds"])
        except UNREADABLE as error:
            raise _not_a_setup(path, error) from None
        model.__dict__["setup"] = setup
        return setup

    def _restore(self, arrays: dict[str, Any], bounds: list[dict[str, Any]]) -> None:
        parts = {name: _beginning(arrays, f"{name}.") for name in ("mode", "metric", "sketch")}
        if parts["mode"]:
            numbers = parts["mode"] | {
                "potential": float(arrays["mode.potential"]),
                "passes": int(arrays["mode.passes"]),
            }
            self.__dict__["mode"] = Mode(**numbers)
        if "tails.first" in arrays:
            rows = DistinctRows(arrays["tails.table"], arrays["tails.weight"], MOST_CORE)
            whole, tied = map(bool, arrays["tails.whole"])
            self.__dict__["tails"] = Tails(arrays["tails.first"], arrays["tails.last"], rows, whole, tied)
        if parts["metric"]:
            self.__dict__["metric"] = Metric(**parts["metric"])
        if "cubic" in arrays:
            self.__dict__["cubic"] = arrays["cubic"]
        for number, entry in enumerate(bounds):
            order = entry["order"]
            *sums, radius = (float.fromhex(x) for x in entry["numbers"])
            asked = None if entry["asked"] is None else float.fromhex(entry["asked"])
            kind = Local(asked) if entry["local"] else Global()
            columns = (self.tails.first,) if entry["core"] else ()
            part, arguments = kind.part(self.model, self.metric, order, radius, *columns)
            psi, shares = arrays.get(f"bounds.{number}.psi"), arrays[f"bounds.{number}.shares"]
            drawing = Drawing(part, arguments, psi, shares)
            self._bounds[kind, order, entry["core"]] = AllBounds(passes.BoundSums(*sums), radius, drawing)
        if parts["sketch"]:
            codes = aligned_codes(self.model.n, self.model.d)
            codes[:] = parts["sketch"]["codes"]
            self._sketch = Sketch(codes, parts["sketch"]["steps"], parts["sketch"]["rows"])


def setup_of(model: Model, *, threads: int | None = None) -> Setup:
    """Return the set-up of a model, which is made once and kept with it."""
    setup = model.__dict__.setdefault("setup", Setup(model))
    setup.threads = threads
    return setup


def _not_a_setup(path: str | os.PathLike[str], error: Exception) -> InputError:
    return InputError(
        f"{os.fspath(path)} is not a saved set-up, or not all of one ({error}). Save it again, with setup.save."
    )


def _beginning(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
