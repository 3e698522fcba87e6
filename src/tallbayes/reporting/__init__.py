"""One page about a run, for people: what was asked, what came out, and how far to trust it."""
