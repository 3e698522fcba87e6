# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Other samplers want older versions of what tallbayes uses: they get an environment of their own.
PEERS := .venv-bench

.PHONY: demo test test-long test-external mutants coverage style lint figures bench comparison bench-paper bench-step docs clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m compileall -q src  # pip compiles what it copies, and an editable package is not copied
	touch $@

# The main job on data it makes itself; writes tallbayes-demo.png.
demo: $(VENV)/installed
	$(BIN)/tallbayes demo

# Lint, types (tests/test_types.py) and every test but the long versions of the statistical ones.
# Each worker has half of the files, so that set-ups are made once; one that is done takes tests of the other.
test: style
	$(BIN)/pytest -n 2 --dist worksteal -m "not long and not external"

style: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint: style
	$(BIN)/mypy

test-long: style
	$(BIN)/pytest -n 2 --dist worksteal -m "not external"

# Bugs on purpose, one at a time in a copy of the source: fails unless a test notices each of them. ONLY="zig-zag" runs
# those with such a name.
mutants: $(VENV)/installed
	$(BIN)/python tests/mutants.py $(if $(ONLY),"$(ONLY)")

# How much of the compiled code the replayed chains reach, with compilation off: as plain Python lines can be counted.
REPLAYED := tests/test_replay.py tests/test_firefly.py tests/test_zigzag.py
coverage: $(VENV)/coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run --source=src/tallbayes -m pytest -p no:xdist -m "not long" -k plain_one $(REPLAYED)
	$(BIN)/coverage report --include='src/tallbayes/kernels/*,src/tallbayes/sources/*,src/tallbayes/setup/*,src/tallbayes/families/rows.py'

$(VENV)/coverage: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[coverage]'
	touch $@

# Every family against NumPyro's NUTS.
test-external: $(PEERS)/installed
	$(PEERS)/bin/python -m pip install --quiet --editable '.[custom]' pytest
	$(PEERS)/bin/python -m pytest tests/test_external.py -m external

# Every figure of the paper at quick scale, into experiments/results/quick; SCALE=--paper takes hours.
FIGURES := likelihood_evaluations ess_logistic_10 ess_logistic_20 ess_robust rho_ess_logistic \
	rho_acceptance_logistic rho_ess_robust rho_acceptance_robust histograms slopes
figures: $(VENV)/installed
	set -e; for figure in $(FIGURES); do $(BIN)/python experiments/$$figure.py $(SCALE); done

# One table: tallbayes beside the paper's other kernels and today's samplers and fits; SCALE=--quick for small n only.
bench: $(PEERS)/installed
	$(PEERS)/bin/python benchmarks/peers.py $(SCALE)

# Figures and table as docs/comparison.md shows them: run after figures and bench, whose results it takes.
comparison: $(PEERS)/installed
	mkdir -p docs/figures
	for figure in $(FIGURES); do cp experiments/results/quick/$$figure.png experiments/results/quick/$$figure.csv docs/figures; done
	$(PEERS)/bin/python benchmarks/peers.py $(SCALE) --page docs/comparison.md

# Rows per step and acceptance, beside an independent implementation of the paper.
bench-paper: $(VENV)/installed
	$(BIN)/python benchmarks/paper_figures.py

# ESS per second of the paper's step, beside the paper's own code.
bench-step: $(VENV)/installed
	$(BIN)/python benchmarks/lean_step.py

# One question each: rows-touched, invariance, against-numpy, against-point-fit, rare-events, wide-design,
# few-rows, explain-accuracy, growing-n, other-kernels, custom-family, counts, cold-start, before-after,
# tails, predictions, bundles.
bench-%: $(VENV)/point-fit
	$(BIN)/python benchmarks/$(subst -,_,$*).py

$(VENV)/point-fit: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[point-fit]'
	touch $@

$(PEERS)/installed: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet --editable '.[bench]'
	touch $@

# The documentation, into docs/_build/html; a warning is an error.
docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(VENV)/docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

clean:
	rm -rf docs/_build $(VENV) $(PEERS) .mypy_cache .pytest_cache .ruff_cache
