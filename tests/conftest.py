"""How a process that runs tests is set up, and in which order it runs them."""

import gc

import pytest

COMPILE_APART = {"test_cold_start.py"}
"""Tests that compile in processes and directories of their own."""

# Modules, cases and their oracles stay; what a test makes is freed by its reference counts, mostly.
gc.set_threshold(200_000, 50, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that compile apart in the middle, where the second of two workers begins.

    What the first worker has compiled meanwhile, the second one then finds on disk.
    """
    apart = [item for item in items if item.path.name in COMPILE_APART]
    others = [item for item in items if item.path.name not in COMPILE_APART]
    middle = len(items) // 2
    items[:] = others[:middle] + apart + others[middle:]


def pytest_collection_finish() -> None:
    """Have garbage collection leave out all that is there before the first test."""
    gc.collect()
    gc.freeze()
