# `make quickstart` and `make test` each do the missing set-up.
# On another Python: make PYTHON=python3.12 test

SHELL := bash
VENV ?= .venv
# The first Python of 3.11 or newer that can make virtual environments.
PYTHON ?= $(shell for python in python3.11 python3.12 python3 python3.13; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$python && break; done)
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
# uv takes seconds where pip takes a minute, but not pip's settings of a mirror.
install = $(if $(shell command -v uv),uv pip install --python $(RUN) --quiet $(1) ||) \
	$(RUN) -m pip install --quiet $(1)
CONFIG ?= configs/quickstart.py
WORKDIR ?= runs/quickstart
ARGS ?=

.PHONY: quickstart test check format docs clean

quickstart: $(INSTALLED)  ## Train on handwritten digits, write the report.
	$(RUN) -m vit_jax.train --config=$(CONFIG) --workdir=$(WORKDIR) $(ARGS)

test: $(INSTALLED)  ## ARGS=--slow, ARGS=--exhaustive: more of them.
	$(RUN) -m pytest -n auto --maxprocesses=8 --dist=loadfile $(ARGS)

check: $(INSTALLED)  ## Lint, format and layers: what to run before a commit.
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pytest -q tests/test_layers.py tests/test_packaging.py

format: $(INSTALLED)  ## Apply ruff's fixes.
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

docs: $(INSTALLED)  ## Build the documentation's site into site/.
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs --quiet build --strict $(ARGS)
	@echo 'Built: open site/index.html.'

clean:  ## Remove the environment and caches; runs/ stays.
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .ruff_cache .hypothesis
	find vit_jax configs tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.txt setup.py
	@if [ -z "$(PYTHON)" ]; then \
	  echo 'No Python of 3.11 or newer with the venv module was found.' \
	    'Install one (on Debian: apt install python3 python3-venv) or name' \
	    'it: make PYTHON=/path/to/python3 $(MAKECMDGOALS)' >&2; exit 1; fi
	@echo 'Setting up $(VENV): a few minutes, once.'
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(call install,--requirement requirements.txt)
	$(call install,--no-deps --no-build-isolation --editable .)
	touch $@
