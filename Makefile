# Everything runs in an environment of its own, .venv, which the first command makes.
PYTHON ?= python3
BIN = .venv/bin

# The tests start hundreds of processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-auth test busy coverage lint types docs bench clauses marks conformance parity clean

.venv/.base: setup.cfg pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/.%: .venv/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	touch $@

demo: .venv/.base  ## a client and a server, every message between them, in both eras
	$(BIN)/python docs/examples/demo.py

demo-auth: .venv/.base .venv/.auth  ## a protected server, who logs users in for it, every message between them
	$(BIN)/python docs/examples/auth/demo.py

test: .venv/.test .venv/.dev .venv/.peer .venv/.deploy  ## the test suite
	$(BIN)/python -m pytest -n auto --dist worksteal --junitxml=build/tests.xml

busy: .venv/.test .venv/.dev .venv/.peer .venv/.deploy  ## the test suite, beside processes that take all cores
	$(BIN)/python tests/busy.py

coverage: .venv/.test .venv/.peer  ## each module by its own test file, 95 % at least
	$(BIN)/python tests/coverage_by_module.py

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev .venv/.test
	$(BIN)/mypy

docs: .venv/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: .venv/.peer  ## this package and the official SDK, side by side
	$(BIN)/python tests/bench

clauses: .venv/.test .venv/.peer  ## every clause of the specification: code, tests, what is missing
	$(BIN)/python tests/clauses.py

marks: .venv/.test .venv/.peer  ## does each line marked `# spec:` run in a test with the same mark? some minutes
	$(BIN)/python tests/marks_run.py

conformance: .venv/.base .venv/.auth  ## the official conformance suite, all sides; npm installs it
	$(BIN)/python tests/conformance/run.py

clean:
	rm -rf .venv build *.egg-info docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
