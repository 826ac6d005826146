# `make demo` and `make test` do all the set-up on a fresh machine; PYTHON names the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2
# A worker per core: more threads than cores would wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

.PHONY: demo test check lint types coverage faults docs tutorials wheel release-check clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $@

demo: .venv/installed
	$(BIN)/surelabel demo

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: .venv/installed-dev
	$(BIN)/mypy

check: lint types
	$(PYTEST) -m "not training and not slow"

test: lint types
	$(PYTEST) -m "not slow"

# The long campaign of faults; ARGS="--only kills --count 10" chooses. About an hour on two cores.
SEED ?= 0
faults: .venv/installed-dev
	$(BIN)/python tests/faults/campaign.py --seed $(SEED) $(ARGS)

coverage: .venv/installed-dev
	$(PYTEST) -m "not slow" --cov=surelabel --cov-report=term:skip-covered

# The site, offline, into docs/_build/html. A warning, such as a link that leads nowhere, is an error.
docs: .venv/installed-dev
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo docs/_build/html/index.html

# Run the commands of the tutorials again and write their output into the pages; ONLY="table review" chooses.
tutorials: .venv/installed-dev
	$(BIN)/python docs/tutorials/run_tutorials.py $(ONLY)

wheel: .venv/installed-dev
	$(BIN)/pip wheel -q --no-deps -w dist .

# Build, install and check a release outside the repository; ARGS="--tag v0.2.0 --keep dist" as the workflow does.
release-check:
	$(PYTHON) tools/release_check.py $(ARGS)

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
