"""What tells a model from every other: a hash of all its rows, its likelihood and its prior."""

import hashlib
import json
from typing import NamedTuple

import numpy as np

from tallbayes.models.base import Model
from tallbayes.sources.base import Block


class _Digests(NamedTuple):
    """Hashes of blocks in their order: a partial result, which merges with that of others."""

    blocks: bytes

    def merged(self, other: "_Digests") -> "_Digests":
        return _Digests(self.blocks + other.blocks)


def fingerprint(model: Model, *, threads: int | None = None) -> str:
    """Return a hash of a model, in one pass: another value of any row, name, likelihood or prior gives another."""
    digest = hashlib.sha256(json.dumps(model.identity).encode())
    for array in (model.rows.parameters, *model.coefficient_priors):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(model.source.reduce(_digest, threads=threads).blocks)
    return digest.hexdigest()


def _digest(block: Block) -> _Digests:
    digest = hashlib.blake2b(digest_size=32)
    per_row = (np.broadcast_to(values, block.count) for values in (block.weight, block.offset))
    for array in (block.X, block.responses, *per_row):
        digest.update(np.ascontiguousarray(array, dtype=np.float64).data)
    return _Digests(digest.digest())
