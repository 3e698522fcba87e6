"""Means, standard deviations and order statistics of many short lines of numbers: the draws of each row.

Sorting a line costs ten times what is needed for a few of its order statistics. Numbers are counted in bins of equal
width; only those that share a bin with a wanted rank are then sorted.
"""

import numpy as np
from numpy.typing import NDArray

from tallbayes.compiled import compiled

BINS = 512


@compiled
def describe_lines(lines: NDArray[np.float64], ranks: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    """Put mean, standard deviation and the order statistics of ranks (from 0 on, rising) into lines of out."""
    size = lines.shape[1]
    counts, wanted, held = np.empty(BINS, np.int64), np.empty(BINS, np.bool_), np.empty(size)
    place = np.empty(size, np.int64)
    for i in range(lines.shape[0]):
        line, found = lines[i], out[i]
        low = high = line[0]
        total = 0.0
        for x in line:
            low, high = min(low, x), max(high, x)
            total += x
        mean = total / size
        width = (high - low) / BINS
        square = 0.0
        for x in line:
            square += (x - mean) * (x - mean)
        found[0], found[1] = mean, np.sqrt(square / (size - 1.0)) if size > 1 else np.nan
        if not (width > 1e-300 and width < 1e300):  # all alike, or not finite
            ordered = np.sort(line)
            for k in range(ranks.size):
                found[2 + k] = ordered[ranks[k]]
            continue
        counts[:] = 0
        scale = 1.0 / width
        for j in range(size):
            b = min(int((line[j] - low) * scale), BINS - 1)
            place[j] = b
            counts[b] += 1
        wanted[:] = False
        before, b = 0, 0
        for k in range(ranks.size):
            while before + counts[b] <= ranks[k]:
                before += counts[b]
                b += 1
            wanted[b] = True
        kept = 0
        for j in range(size):
            if wanted[place[j]]:
                held[kept] = line[j]
                kept += 1
        ordered = np.sort(held[:kept])
        before, skipped, b = 0, 0, 0
        for k in range(ranks.size):
            while before + counts[b] <= ranks[k]:
                before += counts[b]
                skipped += 0 if wanted[b] else counts[b]
                b += 1
            found[2 + k] = ordered[ranks[k] - skipped]
