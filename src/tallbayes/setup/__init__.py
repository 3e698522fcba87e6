"""Set-up: everything that takes passes over the rows before the first step."""
