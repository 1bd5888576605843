# Two commands set up everything: `make demo` runs the main job, `make test` passes the tests.
VENV ?= .venv
PY := $(VENV)/bin/python
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml
	@test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@
