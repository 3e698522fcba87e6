"""Runs: chains, threads, progress."""
