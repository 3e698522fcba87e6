"""The surrogate: mode, Taylor expansion, and bounds on what the expansion leaves out."""
