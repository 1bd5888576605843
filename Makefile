# Two commands set up everything: `make demo` runs the main job, `make test` passes the tests.
VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -q
SOURCES := shared services cli examples tests bench
# State machines, models and damage bit by bit: what is tried is many, so they have a target of their own.
MODELS := $(sort $(wildcard tests/unit/*/test_*_machine.py tests/unit/*/test_*_model.py tests/unit/*/test_*_damage.py))
SEED ?= 1
SEEDS ?= 0:500
STATES ?= 10000
# What setuptools says is of interest only when it fails.
LOUD_IF_FAILED = > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
.DEFAULT_GOAL := help
.PHONY: help demo test check compiled wheel bench proto planted sim full mariadb compiler nodejs unit models crash simulation fixtures integration spark java

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(PY):
	python3 -m venv $(VENV)

$(VENV)/.runtime: requirements/build.txt requirements/runtime.txt pyproject.toml | $(PY)
	@echo "Setting up: runtime packages"
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . $(LOUD_IF_FAILED)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt requirements/backfill.txt
	@echo "Setting up: development packages, and PySpark"
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt -r requirements/backfill.txt
	@touch $@

demo: $(VENV)/.runtime ## the main job on embedded defaults, with a verdict
	@$(VENV)/bin/tidelog demo

test: $(VENV)/.dev mariadb compiler nodejs java check unit compiled models crash simulation fixtures integration spark ## everything CI runs

mariadb: ## Debian's MariaDB for the tests (installs it when root, else says what is missing)
	@tests/need.sh mariadbd mariadb-server
	@tests/need.sh openssl openssl

java: ## a JDK 17 for Spark (the same)
	@tests/need.sh java openjdk-17-jre-headless

compiler: ## a C compiler for the compiled codecs (the same)
	@tests/need.sh cc gcc libc6-dev python3-dev

nodejs: $(VENV)/.nodejs ## Node.js for the example in JavaScript (the same), and what it imports
$(VENV)/.nodejs: examples/nodejs/package.json | $(PY)
	@tests/need.sh npm nodejs npm
	@cd examples/nodejs && npm install --no-package-lock --no-audit --no-fund --silent
	@touch $@

check: $(VENV)/.dev ## format, lint, types, import law, generated protobuf
	@$(PY) -m ruff format --check $(SOURCES) setup.py
	@$(PY) -m ruff check $(SOURCES) setup.py
	@$(PY) -m mypy $(SOURCES)
	@$(VENV)/bin/lint-imports --no-logo | tail -n 4
	@$(PYTEST) tests/unit/test_tidy.py tests/unit/test_proto.py

unit: $(VENV)/.dev ## pure rooms, kernel, ports conformance
	@$(PYTEST) -n 2 tests/unit tests/conformance $(addprefix --ignore=,$(MODELS))

models: $(VENV)/.dev ## state machines against their models, damage bit by bit
	@$(PYTEST) -n 2 $(MODELS)

wheel: $(VENV)/.dev compiler
	@rm -rf build/compiled
	@TIDELOG_COMPILE=1 $(PY) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation \
		-w build/compiled . $(LOUD_IF_FAILED)
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --target build/compiled/site build/compiled/*.whl

compiled: wheel ## what a wheel has compiled by mypyc, under the same tests
	@PYTHONPATH=build/compiled/site:. TIDELOG_TEST_COMPILED=1 $(PYTEST) tests/unit/rows tests/unit/plan tests/fixtures/test_decode_golden.py tests/unit/downstreams/test_statements.py

crash: $(VENV)/.dev ## what a power loss or a failing disk may leave a Pump, 10,000 states
	@$(PY) -m tests.crash.run --states $(STATES) --jobs 2
	@$(PYTEST) tests/crash

simulation: $(VENV)/.dev ## seeded histories of whole clusters, and the planted bugs replayed
	@$(PY) -m tests.simulation.run --seeds $(SEEDS) --jobs 2
	@$(PYTEST) tests/simulation
	@$(PY) -m tests.planted.run --replay

fixtures: $(VENV)/.dev mariadb ## what a real TiDB wrote, codec to downstream
	@$(PYTEST) tests/fixtures

spark: $(VENV)/.dev mariadb java ## the bulk pipeline, on a local Spark
	@$(PYTEST) tests/spark

integration: $(VENV)/.dev mariadb nodejs ## real servers, real processes, kills
	@$(PYTEST) -n 2 --dist loadfile tests/integration tests/acceptance

sim: $(VENV)/.dev ## replay one history with its trace: make sim SEED=7
	@$(PY) -m tests.simulation.run --seeds $(SEED):$$(($(SEED) + 1)) --trace

planted: $(VENV)/.dev ## every planted bug against the harness
	@$(PY) -m tests.planted.run

bench: $(VENV)/.dev mariadb wheel ## figures beside the limits of this machine
	@$(PY) -m bench

full: $(VENV)/.dev mariadb java planted ## what is run once before a release
	@$(PY) -m tests.simulation.run --seeds 0:3000 --jobs 2
	@$(PY) -m tests.crash.run --states 100000 --jobs 2
	@$(PY) -m tests.integration.pump.kill_rig --kills 100
	@$(PY) -m tests.integration.drainer.kill_rig --kills 100
	@$(PY) -m tests.acceptance.recovery_drill --kills 50
	@$(PY) -m tests.integration.applier.kill_rig --kills 100 --database-kills 20
	@$(PY) -m tests.integration.drainer.broken
	@$(PY) -m tests.acceptance.restarts --restarts 50
	@$(PY) -m tests.integration.membership.rig
	@$(PY) -m tests.integration.membership.outage_rig --outages 50
	@$(PY) -m tests.integration.drainer.takeover_rig --takeovers 20
	@$(PY) -m tests.acceptance.filtered
	@$(PY) -m tests.acceptance.bidirectional --minutes 10
	@$(PY) -m tests.integration.applier.round_trips
	@TIDELOG_LITERALS=20000 $(PYTEST) tests/integration/applier/test_literals.py
	@$(PY) -m tests.schema_size.run
	@$(PY) -m tests.schema_size.run --history file
	@$(PY) -m tests.schema_size.run --history embedded
	@$(PY) -m tests.integration.drainer.large_rig --kills 3
	@$(PY) -m tests.spark.kill_rig --kills 10
	@$(PY) -m tests.spark.backfill_rig --rows 2000000
	@$(PY) -m tests.spark.hand_over_rig --changes 1000000
	@TIDELOG_TEST_PLACES=20 $(PYTEST) tests/spark/test_replay_set_a.py
	@TIDELOG_TEST_RELAY_MIB=2048 $(PYTEST) -s tests/spark/test_replay_large.py
	@$(PY) -m bench memory replay

proto: $(VENV)/.dev ## regenerate shared/tidelog_proto from proto/
	@cd proto && ../$(PY) -m grpc_tools.protoc -I. --python_out=../shared --mypy_out=quiet:../shared \
		--plugin=protoc-gen-mypy=../$(VENV)/bin/protoc-gen-mypy tidelog_proto/*.proto
