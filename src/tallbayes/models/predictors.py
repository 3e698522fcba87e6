r"""How parameters become the predictors of a row, eta_i = A_i theta, and how derivatives come back.

A row's potential is a function of its q predictors. Passes over rows go through one of these classes, so that they
need not know what A_i is: one line of the design (`Linear`, q = 1), several lines, each with coefficients of its own
(`Several`), or every parameter by itself (`Identity`, q = d, for rows that are any function of the parameters).

Compiled chains read the same as integers, the *layout*: a line for each predictor (`families/structure.py`), and none
where every parameter is a predictor.
"""

import itertools
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled_sum_in_line, compiled_within
from tallbayes.families.structure import Line
from tallbayes.models.products import (
    RoughProducts,
    in_single_precision,
    mixed_moments,
    packed_indices,
    rough_products,
    row_lengths,
    times_transposed,
    weighted_gram,
    weighted_triples,
)
from tallbayes.sources.base import Block

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Layout = NDArray[np.int64]


class Predictors(ABC):
    """The map from parameters to the predictors of a row; arrays have a row of data in each column."""

    linear: bool
    """Whether there is one predictor, x_i . theta + offset_i."""
    designed: bool
    """Whether predictors are linear in the parameters, by the lines of a design."""

    @abstractmethod
    def layout(self, d: int) -> Layout:
        """Return the predictors as compiled chains read them."""

    @abstractmethod
    def count(self, d: int) -> int:
        """Return q, the number of predictors of a row."""

    @abstractmethod
    def at(self, block: Block, theta: Vector) -> Matrix:
        """Return the predictors of each row, q x rows, offsets included."""

    def at_many(self, block: Block, thetas: Matrix) -> NDArray[np.float64]:
        """Return the predictors of each row at several points, which are in lines: q x points x rows."""
        return np.stack([self.at(block, theta) for theta in thetas], axis=1)

    @abstractmethod
    def moves(self, block: Block, change: Vector) -> Matrix:
        """Return how far predictors move when theta moves by ``change``, q x rows."""

    @abstractmethod
    def norms(self, block: Block, inverse_root: Matrix, sums: Matrix | None = None) -> Matrix:
        """Return how far each predictor moves at most for a unit step in whitened coordinates, q x rows.

        With ``sums``, how far sums of predictors do, with the factors in its lines.
        """

    @abstractmethod
    def gradient(self, block: Block, slopes: Matrix) -> Vector:
        """Return the gradient in theta, from first derivatives in the predictors, q x rows."""

    @abstractmethod
    def hessian(self, block: Block, curvatures: Matrix, inverse_root: Matrix | None = None) -> Matrix:
        """Return the Hessian in theta, or in whitened coordinates, from packed second derivatives."""

    def third(self, block: Block, thirds: Matrix, inverse_root: Matrix, white: Matrix | None = None) -> Any:
        """Return what the third derivatives in whitened coordinates are made of, from packed ones in the predictors.

        Whitened rows of a single predictor are computed unless they are given.
        """
        raise NotImplementedError

    def packed_third(self, total: Any, inverse_root: Matrix) -> Vector:
        """Return the third derivatives, entry (a, b, c) with a >= b >= c packed, from such parts added up."""
        raise NotImplementedError


class Linear(Predictors):
    """One linear predictor for each row."""

    linear = designed = True

    def layout(self, d: int) -> Layout:
        """Return one line, which is the row of the design."""
        return np.array([Line(0, d, 0, offset_sign=1)], dtype=np.int64)

    def count(self, d: int) -> int:
        """Return one."""
        return 1

    def at(self, block: Block, theta: Vector) -> Matrix:
        """Return x_i . theta + offset_i."""
        return np.asarray((np.dot(block.X, theta) + block.offset)[None])

    def at_many(self, block: Block, thetas: Matrix) -> NDArray[np.float64]:
        """Return x_i . theta + offset_i at each point, by one product of matrices."""
        out = np.dot(block.X, thetas.T)
        if block.offset.size > 1 or block.offset[0] != 0.0:
            out += block.offset[:, None]
        return np.asarray(out.T[None])  # the draws of a row are beside each other in memory

    def moves(self, block: Block, change: Vector) -> Matrix:
        """Return x_i . change."""
        return np.asarray(np.dot(block.X, change)[None])

    def norms(self, block: Block, inverse_root: Matrix, sums: Matrix | None = None) -> Matrix:
        """Return a_i = |L^-1 x_i|, or a little more (`rough_products`)."""
        return self.roughly_whitened(block, inverse_root).lengths[None]

    def gradient(self, block: Block, slopes: Matrix) -> Vector:
        """Return the slopes' sum of rows."""
        return np.asarray(np.dot(slopes[0], block.X))

    def hessian(self, block: Block, curvatures: Matrix, inverse_root: Matrix | None = None) -> Matrix:
        """Return X' C X, or that of the whitened rows."""
        rows = block.X if inverse_root is None else self.whitened(block, inverse_root)
        return weighted_gram(rows, curvatures[0])

    def third(self, block: Block, thirds: Matrix, inverse_root: Matrix, white: Matrix | None = None) -> Vector:
        """Return the third derivatives themselves, packed."""
        return weighted_triples(self.whitened(block, inverse_root) if white is None else white, thirds[0])

    def packed_third(self, total: Vector, inverse_root: Matrix) -> Vector:
        """Return them as they are."""
        return total

    def whitened(self, block: Block, inverse_root: Matrix) -> Matrix:
        """Return L^-1 x_i in each line."""
        return times_transposed(block.X, inverse_root)

    def roughly_whitened(self, block: Block, inverse_root: Matrix) -> RoughProducts:
        """Return L^-1 x_i to a precision that bounds and sketches reckon with."""
        return rough_products(block.X, inverse_root)

    def white_for_all(self, block: Block, inverse_root: Matrix) -> Matrix | None:
        """Return the same if `norms` are the lengths of these lines, and None if they are computed on their own."""
        return None if in_single_precision(inverse_root.shape[0]) else self.whitened(block, inverse_root)


class Several(Predictors):
    """Several predictors for each row, each with coefficients, or a single parameter, of its own or shared.

    Parameters
    ----------
    lines : tuple of Line
        The predictors.
    d : int
        Number of parameters.
    """

    linear, designed = False, True

    def __init__(self, lines: tuple[Line, ...], d: int) -> None:
        self.lines, self.d = lines, d

    def layout(self, d: int) -> Layout:
        """Return a line for each predictor."""
        return np.array(self.lines, dtype=np.int64)

    def count(self, d: int) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def at(self, block: Block, theta: Vector) -> Matrix:
        """Return the predictors, with the offset where it belongs."""
        eta = self.moves(block, theta)
        for j, line in enumerate(self.lines):
            if line.offset_sign:
                eta[j] += line.offset_sign * block.offset * self._present(line, block)
        return eta

    def at_many(self, block: Block, thetas: Matrix) -> NDArray[np.float64]:
        """Return the predictors at each point, by one product of matrices for each of them."""
        out = np.zeros((len(self.lines), block.count, thetas.shape[0]))
        for j, line in enumerate(self.lines):
            if line.count:
                x = block.X[:, line.column : line.column + line.count]
                np.matmul(x, line.sign * _coefficients(thetas.T, line), out=out[j])
            if line.offset_sign:
                out[j] += line.offset_sign * np.reshape(block.offset, (-1, 1))
            if line.own >= 0:
                number = self._own(line, block)
                out[j] += thetas.T[np.maximum(number, 0)]
                out[j, np.broadcast_to(number < 0, block.count)] = 0.0
        return np.swapaxes(out, 1, 2)  # the draws of a row are beside each other in memory

    def moves(self, block: Block, change: Vector) -> Matrix:
        """Return A_i change."""
        out = np.zeros((len(self.lines), block.count))
        for (column, count), some in self._by_columns.items():
            coefficients = np.stack([line.sign * _coefficients(change, line) for _, line in some])
            if count:
                out[[j for j, _ in some]] = np.dot(coefficients, block.X[:, column : column + count].T)
        for j, line in enumerate(self.lines):
            if line.own >= 0:
                number = self._own(line, block)
                out[j] = np.where(number >= 0, out[j] + change[np.maximum(number, 0)], 0.0)
        return out

    def norms(self, block: Block, inverse_root: Matrix, sums: Matrix | None = None) -> Matrix:
        """Return lengths of whitened lines; where lines have the same columns, in as many coordinates."""
        factors = np.eye(len(self.lines)) if sums is None else sums
        out = np.empty((factors.shape[0], block.count))
        for k, factor in enumerate(factors):
            some = [(j, line) for j, line in enumerate(self.lines) if factor[j] != 0.0]
            alike = len({(line.column, line.count) for _, line in some}) == 1
            if alike and all(line.own < 0 for _, line in some):
                matrix = sum(factor[j] * line.sign * _columns(inverse_root, line) for j, line in some)
                upper = _upper(matrix)
                line = some[0][1]
                out[k] = row_lengths(np.dot(block.X[:, line.column : line.column + line.count], upper.T))
            else:
                white = sum(factor[j] * self._whitened(block, inverse_root, line) for j, line in some)
                out[k] = row_lengths(np.ascontiguousarray(white))
        return out

    def gradient(self, block: Block, slopes: Matrix) -> Vector:
        """Return the sum of the slopes times the lines."""
        out = np.zeros(self.d)
        for line, slope in zip(self.lines, slopes, strict=True):
            here = slope * self._present(line, block)
            if line.count:
                x = block.X[:, line.column : line.column + line.count]
                out[line.parameter : line.parameter + line.count] += line.sign * np.dot(here, x)
            self._add_own(out, line, block, here)
        return out

    def hessian(self, block: Block, curvatures: Matrix, inverse_root: Matrix | None = None) -> Matrix:
        """Return the sum of A' C A over the rows."""
        out = np.zeros((self.d, self.d))
        pairs = [(j, k) for j in range(len(self.lines)) for k in range(j + 1)]
        if inverse_root is not None:
            white = [self._whitened(block, inverse_root, line) for line in self.lines]
            for (j, k), weight in zip(pairs, curvatures, strict=True):
                one = (np.broadcast_to(white[j], (block.count, self.d)) * weight[:, None]).T @ np.broadcast_to(
                    white[k], (block.count, self.d)
                )
                out += one if j == k else one + one.T
            return out
        for (j, k), weight in zip(pairs, curvatures, strict=True):
            one = self._product(block, self.lines[j], self.lines[k], weight)
            out += one if j == k else one + one.T
        return out

    def third(
        self, block: Block, thirds: Matrix, inverse_root: Matrix, white: Matrix | None = None
    ) -> tuple[Any, ...]:
        """Return weighted moments of the frames, for each j >= k >= l."""
        frames = [frame.of(block, self) for frame in self._frames(inverse_root)[0]]
        _, which, _ = self._frames(inverse_root)
        found = []
        for (j, k, l), weight in zip(self._triples, thirds, strict=True):
            a, b, c = which[j], which[k], which[l]
            if a == b == c:
                found.append(weighted_triples(frames[a], weight))
            else:
                found.append(mixed_moments(frames[a], frames[b], frames[c], weight))
        return tuple(found)

    def packed_third(self, total: tuple[Any, ...], inverse_root: Matrix) -> Vector:
        """Return the derivatives in z, from those in the frames' coordinates."""
        _, which, maps = self._frames(inverse_root)
        d = self.d
        tensor = np.zeros((d, d, d))
        for (j, k, l), moments in zip(self._triples, total, strict=True):
            if which[j] == which[k] == which[l]:
                p = maps[j].shape[1]
                dense = np.empty((p, p, p))
                a, b, c = packed_indices(p)
                for x, y, z in itertools.permutations((a, b, c)):
                    dense[x, y, z] = moments
            else:
                dense = moments
            turned = np.einsum("ijk,ai,bj,ck->abc", dense, maps[j], maps[k], maps[l], optimize=True)
            tensor += len(set(itertools.permutations((j, k, l)))) * turned
        a, b, c = packed_indices(d)
        every = [tensor[index] for index in itertools.permutations((a, b, c))]
        return np.asarray(np.mean(every, axis=0))

    # -- parts --

    @cached_property
    def _by_columns(self) -> dict[tuple[int, int], list[tuple[int, Line]]]:
        found: dict[tuple[int, int], list[tuple[int, Line]]] = {}
        for j, line in enumerate(self.lines):
            found.setdefault((line.column, line.count), []).append((j, line))
        return found

    @property
    def _triples(self) -> list[tuple[int, int, int]]:
        q = len(self.lines)
        return [(j, k, l) for j in range(q) for k in range(j + 1) for l in range(k + 1)]

    def _own(self, line: Line, block: Block) -> NDArray[np.int64]:
        """Return the number of each row's own parameter, -1 if it has none; one number if it is that of all."""
        at = np.full(1, line.own_shift)
        if line.by_response:
            at = line.own_shift + block.responses[:, 0].astype(np.int64)
        return np.where((at >= 0) & (at < line.own_count), line.own + at, -1)

    def _present(self, line: Line, block: Block) -> Any:
        """Return 1 for rows that have the predictor, and 0 for others."""
        return 1.0 if line.own < 0 else (self._own(line, block) >= 0).astype(np.float64)

    def _add_own(self, out: Vector, line: Line, block: Block, values: Vector) -> None:
        if line.own < 0:
            return
        number = self._own(line, block)
        if number.size == 1:
            out[number[0]] += np.sum(values)
        else:
            some = number >= 0
            out += np.bincount(number[some], values[some], minlength=out.size)

    def _product(self, block: Block, one: Line, other: Line, weight: Vector) -> Matrix:
        """Return the sum of weight a a' for two lines of each row."""
        out = np.zeros((self.d, self.d))
        weight = weight * self._present(one, block) * self._present(other, block)
        rows = slice(one.parameter, one.parameter + one.count)
        columns = slice(other.parameter, other.parameter + other.count)
        x = block.X[:, one.column : one.column + one.count]
        y = block.X[:, other.column : other.column + other.count]
        if one.count and other.count:
            same = (one.column, one.count) == (other.column, other.count)
            product = weighted_gram(x, weight) if same else np.dot((x * weight[:, None]).T, y)
            out[rows, columns] = one.sign * other.sign * product
        for line, z, theirs, turned in ((one, y, columns, False), (other, x, rows, True)):
            if line.own < 0 or not z.shape[1]:
                continue
            number, sign = self._own(line, block), (one if turned else other).sign
            for at in np.unique(number[number >= 0]):
                here = weight if number.size == 1 else np.where(number == at, weight, 0.0)
                if turned:
                    out[theirs, at] += sign * np.dot(here, z)
                else:
                    out[at, theirs] += sign * np.dot(here, z)
        if one.own >= 0 and other.own >= 0:
            both = [np.broadcast_to(self._own(line, block), block.count) for line in (one, other)]
            some = (both[0] >= 0) & (both[1] >= 0)
            np.add.at(out, (both[0][some], both[1][some]), weight[some])
        return out

    def _whitened(self, block: Block, inverse_root: Matrix, line: Line) -> Matrix:
        """Return L^-1 a_i of a predictor in each line; a single one if it is that of all rows."""
        white = np.zeros((1, self.d))
        if line.count:
            x = block.X[:, line.column : line.column + line.count]
            white = line.sign * np.dot(x, _columns(inverse_root, line).T)
        if line.own >= 0:
            number = self._own(line, block)
            white = np.where((number >= 0)[:, None], white + inverse_root.T[np.maximum(number, 0)], 0.0)
        return white

    def _frames(self, inverse_root: Matrix) -> tuple[list["_Frame"], list[int], list[Matrix]]:
        """Return coordinates of the lines in which they are short, which of these each line has, and the way to z."""
        frames: list[_Frame] = []
        which: list[int] = []
        maps: list[Matrix] = []
        for j, line in enumerate(self.lines):
            if line.count and line.own >= 0:
                frames.append(_Frame(j, inverse_root))
                which.append(len(frames) - 1)
                maps.append(np.eye(self.d))
                continue
            alike = [f for f, frame in enumerate(frames) if self._alike(self.lines[frame.line], line)]
            matrix = line.sign * _columns(inverse_root, line) if line.count else inverse_root[:, [line.own]]
            if not alike:
                upper = _upper(matrix) if line.count else np.ones((1, 1))
                frames.append(_Frame(j, upper))
            which.append(alike[0] if alike else len(frames) - 1)
            upper = frames[which[-1]].matrix
            maps.append(np.asarray(np.linalg.solve(upper.T, matrix.T).T, dtype=np.float64))
        return frames, which, maps

    @staticmethod
    def _alike(one: Line, other: Line) -> bool:
        if one.own >= 0 or other.own >= 0:
            return one.count == other.count == 0
        return (one.column, one.count) == (other.column, other.count)


class _Frame:
    """Coordinates of one line of each row: its columns times a matrix, a one, or the whitened line itself."""

    def __init__(self, line: int, matrix: Matrix) -> None:
        self.line, self.matrix = line, matrix

    def of(self, block: Block, predictors: Several) -> Matrix:
        line = predictors.lines[self.line]
        if line.count and line.own >= 0:
            return np.ascontiguousarray(predictors._whitened(block, self.matrix, line))
        if not line.count:
            return np.ones((block.count, 1))
        return np.dot(block.X[:, line.column : line.column + line.count], self.matrix.T)


def predictors_of(lines: tuple[Line, ...], d: int) -> Predictors:
    """Return the way from parameters to predictors: one line for each row, or several."""
    return Linear() if lines == (Line(0, d, 0, offset_sign=1),) else Several(lines, d)


def _upper(matrix: Any) -> Matrix:
    """Return a square matrix R with |R x| = |matrix x| for every x."""
    return np.asarray(np.linalg.qr(matrix, mode="r"), dtype=np.float64)


def _columns(inverse_root: Matrix, line: Line) -> Matrix:
    return inverse_root[:, line.parameter : line.parameter + line.count]


def _coefficients(theta: Vector, line: Line) -> Vector:
    return theta[line.parameter : line.parameter + line.count]


class Identity(Predictors):
    """Every parameter is a predictor of every row; there is no design."""

    linear = designed = False

    def layout(self, d: int) -> Layout:
        """Return no line at all."""
        return np.empty((0, len(Line._fields)), dtype=np.int64)

    def count(self, d: int) -> int:
        """Return the number of parameters."""
        return d

    def at(self, block: Block, theta: Vector) -> Matrix:
        """Return theta for each row."""
        return np.repeat(theta[:, None], block.count, axis=1)

    def moves(self, block: Block, change: Vector) -> Matrix:
        """Return the change for each row."""
        return np.repeat(change[:, None], block.count, axis=1)

    def norms(self, block: Block, inverse_root: Matrix, sums: Matrix | None = None) -> Matrix:
        """Return the length of each column of L^-1."""
        return np.repeat(np.linalg.norm(inverse_root, axis=0)[:, None], block.count, axis=1)

    def gradient(self, block: Block, slopes: Matrix) -> Vector:
        """Return the sum of the slopes."""
        return np.asarray(np.sum(slopes, axis=1))

    def hessian(self, block: Block, curvatures: Matrix, inverse_root: Matrix | None = None) -> Matrix:
        """Return the sum of the rows' matrices, in whitened coordinates if asked for."""
        sums = np.sum(curvatures, axis=1)
        d = round((np.sqrt(8.0 * sums.size + 1.0) - 1.0) / 2.0)
        matrix = np.zeros((d, d))
        matrix[np.tril_indices(d)] = sums
        matrix += np.tril(matrix, -1).T
        return matrix if inverse_root is None else inverse_root @ matrix @ inverse_root.T


COLUMN, COUNT, PARAMETER, SIGN, OFFSET_SIGN, OWN, OWN_COUNT, OWN_SHIFT, BY_RESPONSE = range(len(Line._fields))
"""Columns of a layout."""


@compiled_within
def own_parameter(layout: Layout, p: int, response: Vector) -> int:
    """Return the number of the parameter that predictor p has by itself, -1 if the row does not have the predictor."""
    at = layout[p, OWN_SHIFT]
    if layout[p, BY_RESPONSE] == 1:
        at += int(response[0])
    return layout[p, OWN] + at if 0 <= at < layout[p, OWN_COUNT] else -1


@compiled_sum_in_line
def _three_products(count: int, x: Vector, a: Vector, b: Vector, c: Vector) -> tuple[float, float, float]:
    """Return x . a, x . b and x . c, over so many numbers."""
    with_a, with_b, with_c = 0.0, 0.0, 0.0
    for j in range(count):
        with_a += x[j] * a[j]
        with_b += x[j] * b[j]
        with_c += x[j] * c[j]
    return with_a, with_b, with_c


@compiled_sum_in_line
def two_products(x: Vector, a: Vector, b: Vector) -> tuple[float, float]:
    """Return x . a and x . b."""
    with_a, with_b = 0.0, 0.0
    for j in range(x.size):
        with_a += x[j] * a[j]
        with_b += x[j] * b[j]
    return with_a, with_b


def predict(
    layout: Layout,
    row: Vector,
    response: Vector,
    offset: float,
    centre: Vector,
    move: Vector,
    other: Vector,
    out: Matrix,
) -> None:
    """Put a row's predictors into out: offset included at the first point, and without it at the two others."""
    for p in range(layout.shape[0]):
        column, parameter = layout[p, COLUMN], layout[p, PARAMETER]
        at_centre, before, after = _three_products(
            layout[p, COUNT], row[column:], centre[parameter:], move[parameter:], other[parameter:]
        )
        if layout[p, SIGN] < 0:
            at_centre, before, after = -at_centre, -before, -after
        at_centre += layout[p, OFFSET_SIGN] * offset
        if layout[p, OWN] >= 0:
            own = own_parameter(layout, p, response)
            if own < 0:
                at_centre, before, after = 0.0, 0.0, 0.0
            else:
                at_centre += centre[own]
                before += move[own]
                after += other[own]
        out[0, p] = at_centre
        out[1, p] = before
        out[2, p] = after


predict_in_line: Any = numba.njit(inline="always")(predict)
"""The same, copied into compiled functions before they are compiled: a call with so many arrays costs as much as the
products, and half as much again to compile."""


def lines_of_row(layout: Layout, x: Vector, response: Vector, d: int) -> Matrix:
    """Return A_i: for each predictor, what every parameter is multiplied by."""
    out = np.zeros((layout.shape[0], d))
    for p, entries in enumerate(layout):
        line = Line(*(int(entry) for entry in entries))
        out[p, line.parameter : line.parameter + line.count] = line.sign * x[line.column : line.column + line.count]
        if line.own >= 0:
            own = int(own_parameter(layout, p, response))
            if own < 0:
                out[p] = 0.0
            else:
                out[p, own] = 1.0
    return out
