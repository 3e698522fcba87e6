"""Plans: which kernel, and what it will cost, before the first draw."""
