# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-long lint bench-paper bench-step clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The main job on data it makes itself; writes tallbayes-demo.png.
demo: $(VENV)/installed
	$(BIN)/tallbayes demo

# Lint, types and every test but the long versions of the statistical ones.
test: lint
	$(BIN)/pytest -n 2 -m "not long"

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-long: lint
	$(BIN)/pytest -n 2

# Rows per step and acceptance, beside an independent implementation of the paper.
bench-paper: $(VENV)/installed
	$(BIN)/python benchmarks/paper_figures.py

# Effective draws a second of the paper's step, beside the paper's own code.
bench-step: $(VENV)/installed
	$(BIN)/python benchmarks/lean_step.py

# One question each: rows-touched, invariance, against-numpy, against-point-fit, rare-events, wide-design,
# few-rows, explain-accuracy, growing-n, custom-family.
bench-%: $(VENV)/bench
	$(BIN)/python benchmarks/$(subst -,_,$*).py

$(VENV)/bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
