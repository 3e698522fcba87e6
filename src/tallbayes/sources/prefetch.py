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


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Fetch the cache line in which ``array[index]`` begins; in compiled code only, where it changes no result."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, view.strides)[0]
        word, flag = ir.IntType(64), ir.IntType(32)
        address = builder.add(builder.ptrtoint(view.data, word), builder.mul(arguments[1], stride))
        pointer = builder.inttoptr(address, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(function, [pointer, flag(READ), flag(KEEP), flag(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _nothing(array: Any, index: Any) -> None:
    """Do nothing: it would change no result."""


prefetch = _nothing if config.DISABLE_JIT else _prefetch
