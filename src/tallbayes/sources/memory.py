"""Rows read where they are in memory, whatever their precision and order: compiled code knows addresses only.

A design is described by five numbers. So one compiled kernel reads float64 and float32, rows or columns first,
read-only and memory-mapped arrays, and the usual kinds of integers, and none of them is copied.
"""

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray
from numba.core import config, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tallbayes.compiled import compiled_borrowing, compiled_within, compiled_within_with_arrays
from tallbayes.sources.prefetch import prefetch_at

ADDRESS, ROW_STRIDE, COLUMN_STRIDE, KIND, COLUMNS = range(5)
"""Entries of a description; strides are in bytes."""
FLOAT64, FLOAT32, INT8, UINT8, INT32, INT64 = range(6)
"""Kinds of numbers."""
KINDS = {
    np.dtype(np.float64): FLOAT64,
    np.dtype(np.float32): FLOAT32,
    np.dtype(np.int8): INT8,
    np.dtype(np.uint8): UINT8,
    np.dtype(np.bool_): UINT8,
    np.dtype(np.int32): INT32,
    np.dtype(np.int64): INT64,
}


def describe(X: NDArray[Any]) -> NDArray[np.int64]:
    """Return where a matrix is and how it is laid out; the matrix must be kept alive."""
    return np.array([X.ctypes.data, *X.strides, KINDS[X.dtype], X.shape[1]], dtype=np.int64)


def _reader(kind: Any, width: Any, widen: str, plain: Any) -> Any:
    """Return a function that reads one number at an address as a float64."""

    @intrinsic
    def read(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], width.as_pointer())
            value = builder.load(pointer)
            value.align = 1  # columns of a packed record need not be aligned
            return getattr(builder, widen)(value, ir.DoubleType()) if widen else value

        return types.float64(types.int64), generate

    if config.DISABLE_JIT:
        return lambda address: float(plain.from_address(int(address)).value)
    return read


read_float64 = _reader(types.float64, ir.DoubleType(), "", ctypes.c_double)
read_float32 = _reader(types.float32, ir.FloatType(), "fpext", ctypes.c_float)
read_int8 = _reader(types.int8, ir.IntType(8), "sitofp", ctypes.c_int8)
read_uint8 = _reader(types.uint8, ir.IntType(8), "uitofp", ctypes.c_uint8)
read_int32 = _reader(types.int32, ir.IntType(32), "sitofp", ctypes.c_int32)
read_int64 = _reader(types.int64, ir.IntType(64), "sitofp", ctypes.c_int64)


@compiled_within
def load_row(design: NDArray[np.int64], i: int, row: NDArray[np.float64]) -> None:
    """Put row i of a described design into row, as float64."""
    at, step, kind = design[0] + i * design[1], design[2], design[3]
    if kind == FLOAT64 and step == 8:  # what most designs are: a copy
        for j in range(row.size):
            row[j] = read_float64(at + 8 * j)
        return
    for j in range(row.size):
        if kind == FLOAT64:
            row[j] = read_float64(at)
        elif kind == FLOAT32:
            row[j] = read_float32(at)
        elif kind == INT8:
            row[j] = read_int8(at)
        elif kind == UINT8:
            row[j] = read_uint8(at)
        elif kind == INT32:
            row[j] = read_int32(at)
        else:
            row[j] = read_int64(at)
        at += step


CACHE_LINE = 64
"""Bytes that are fetched at a time."""


@compiled_within
def prefetch_row(design: NDArray[np.int64], i: int) -> None:
    """Ask for row i of a described design, which is read soon."""
    first, step = design[0] + i * design[1], design[2]
    if abs(step) >= CACHE_LINE:
        for j in range(design[4]):
            prefetch_at(first + j * step)
    else:
        for at in range(first, first + design[4] * step, CACHE_LINE):
            prefetch_at(at)
        prefetch_at(first + (design[4] - 1) * step)  # a row need not begin where a line does


TOGETHER = 256
"""Rows that are put together at a time: their lines stay in the nearest cache while columns are gone through."""


def rows_of_columns(columns: list[NDArray[Any]]) -> NDArray[np.float64]:
    """Return columns of any precision as the rows of a matrix."""
    known = [column if column.dtype in KINDS else column.astype(np.float64) for column in columns]
    out = np.empty((known[0].size, len(known)))
    lines = [(c.__array_interface__["data"][0], c.strides[0], KINDS[c.dtype]) for c in known]
    put_columns(np.array(lines, dtype=np.int64), out)
    return out


@compiled_borrowing
def put_columns(columns: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    """Put described columns (address, stride, kind) side by side."""
    for start in range(0, out.shape[0], TOGETHER):
        rows = out[start : min(start + TOGETHER, out.shape[0])]
        for j in range(out.shape[1]):
            at, step, kind = columns[j, 0] + start * columns[j, 1], columns[j, 1], columns[j, 2]
            if kind == FLOAT64:
                for i in range(rows.shape[0]):
                    rows[i, j] = read_float64(at + i * step)
            elif kind == FLOAT32:
                for i in range(rows.shape[0]):
                    rows[i, j] = read_float32(at + i * step)
            elif kind == INT8:
                for i in range(rows.shape[0]):
                    rows[i, j] = read_int8(at + i * step)
            elif kind == UINT8:
                for i in range(rows.shape[0]):
                    rows[i, j] = read_uint8(at + i * step)
            elif kind == INT32:
                for i in range(rows.shape[0]):
                    rows[i, j] = read_int32(at + i * step)
            else:
                for i in range(rows.shape[0]):
                    rows[i, j] = read_int64(at + i * step)


def places(*arrays: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return where contiguous arrays are, a line for each: address, lines, columns. They must be kept alive.

    Compiled code that seldom needs an array, or needs it only in some variant, takes it from there (`vector_at`,
    `matrix_at`): arrays among a function's arguments cost compilation at every call, used or not.
    """
    shapes = [array.shape if array.ndim == 2 else (1, array.size) for array in arrays]
    return np.array(
        [(array.__array_interface__["data"][0], *shape) for array, shape in zip(arrays, shapes, strict=True)],
        dtype=np.int64,
    )


def _as_pointer(typing_context: Any, address: Any) -> Any:
    """Return an address as a pointer to float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(types.int64), generate  # type: ignore[attr-defined]


_pointer_to: Any = intrinsic(_as_pointer)
if config.DISABLE_JIT:
    _pointer_to = lambda address: ctypes.cast(int(address), ctypes.POINTER(ctypes.c_double))  # noqa: E731


@compiled_within_with_arrays
def vector_at(place: NDArray[np.int64]) -> Any:
    """Return the array of a line of `places` as a vector."""
    return carray(_pointer_to(place[0]), (place[1] * place[2],))


@compiled_within_with_arrays
def matrix_at(place: NDArray[np.int64]) -> Any:
    """Return the array of a line of `places` as a matrix."""
    return carray(_pointer_to(place[0]), (place[1], place[2]))


class _Memory:
    """An array's memory without its read-only flag; keeps the array alive."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def writable_view(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same memory without a read-only flag, for which kernels would be compiled a second time.

    Compiled code never writes to rows.
    """
    return array if array.flags.writeable else np.asarray(_Memory(array))
