"""Models: rows, a likelihood and a prior, checked and ready to be sampled."""
