"""Asking for memory before it is needed.

Rows drawn at random are almost never in the cache. A processor waits for some ten missed loads at a time, and only
for those that are near in the program; a prefetch is not waited for at all, so the waits of a whole batch overlap.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic

READ, KEEP, DATA = 0, 3, 1
"""What LLVM's prefetch is told: the line will be read, is worth keeping, and holds data."""


def _ask_for(builder: Any, address: Any) -> None:
    """Put a prefetch of the cache line at an address into the code."""
    flag = ir.IntType(32)
    pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, flag, flag, flag])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
    builder.call(function, [pointer, flag(READ), flag(KEEP), flag(DATA)])


def _address_of(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Put the address of ``array[index]``, the first two arguments, into the code."""
    view = context.make_array(signature.args[0])(context, builder, arguments[0])
    stride = cgutils.unpack_tuple(builder, view.strides)[0]
    return builder.add(builder.ptrtoint(view.data, ir.IntType(64)), builder.mul(arguments[1], stride))


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Fetch the cache line in which ``array[index]`` begins; in compiled code only, where it changes no result."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _ask_for(builder, _address_of(context, builder, signature, arguments))
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def _prefetch_byte(typing_context: Any, array: Any, index: Any, byte: Any) -> Any:
    """Fetch the cache line of a byte of ``array[index]``, counted from where that begins."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _address_of(context, builder, signature, arguments)
        _ask_for(builder, builder.add(first, arguments[2]))
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


@intrinsic
def _prefetch_at(typing_context: Any, address: Any) -> Any:
    """Fetch the cache line at an address, an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _ask_for(builder, arguments[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _nothing(array: Any, index: Any = 0, byte: Any = 0) -> None:
    """Do nothing: it would change no result."""


prefetch = _nothing if config.DISABLE_JIT else _prefetch
prefetch_byte = _nothing if config.DISABLE_JIT else _prefetch_byte
prefetch_at = _nothing if config.DISABLE_JIT else _prefetch_at
