# Each target sets up its own virtual environment in .venv; Python 3.11 and make are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# CleanRL's own pins (old gym, Python < 3.11) cannot be met beside the others: see docs/reference/frameworks.md.
CLEANRL := --no-deps --ignore-requires-python cleanrl==1.2.0

.PHONY: demo test test-long lint format docs install clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet $(CLEANRL)
	touch $@

# The figure is drawn even where a run failed; the exit code tells.
demo: install
	$(BIN)/parallax train --multirun study=demo; code=$$?; \
	$(BIN)/parallax compare results/demo || exit; exit $$code

test: install
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile

# Ten minutes of sweeps that race each other, thousands of damaged run folders, a cluster where all
# goes wrong, all plants, and the checks of the slowest adapters that the tests leave out.
test-long: install
	$(BIN)/python -m pytest -m long

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site in site/; broken links and missing pages are errors.
docs: install
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/python -m mkdocs build --strict --quiet

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV)
