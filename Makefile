# Two commands set up everything: `make demo` runs the main job, `make test` passes the tests.
VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest -q
# Where real servers of tests write: in memory if there is room, else they mostly wait for each other's syncs. What disks
# are like, the others try: unit (the adapter of disks), crash, kills, faults, compose, the soak. A TMPDIR is respected.
SHM_GIB := $(shell findmnt -no OPTIONS /dev/shm 2>/dev/null | grep -qvw noexec && df --output=avail --block-size=G /dev/shm | tr -dc 0-9)
IN_MEMORY := $(if $(TMPDIR),,$(shell [ "$(or $(SHM_GIB),0)" -ge 8 ] && echo TMPDIR=/dev/shm))
SOURCES := shared services cli examples tests bench docs/generate
# State machines, models and damage bit by bit: what is tried is many, so they have a target of their own.
MODELS := $(sort $(wildcard tests/unit/*/test_*_machine.py tests/unit/*/test_*_model.py tests/unit/*/test_*_damage.py))
SEED ?= 1
SEEDS ?= 0:160
PD_SEEDS ?= 1000000:1000040
STATES ?= 10000
# What setuptools says is of interest only when it fails.
LOUD_IF_FAILED = > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
.DEFAULT_GOAL := help
# Where it is set, each of the thousand processes that tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test debian beside-fuzz beside-crash beside-kills beside-compose check adapters compiled wheel bench proto docs planted sim sim-full full mariadb etcd compiler nodejs unit models crash simulation fixtures integration faults spark console browser java prometheus compose requirements kills

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(PY):
	python3 -m venv $(VENV)

$(VENV)/.runtime: requirements/build.txt requirements/runtime.txt pyproject.toml | $(PY)
	@echo "Setting up: runtime packages"
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . $(LOUD_IF_FAILED)
	@touch $@

# Most of it is never imported; what is, is compiled then.
$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt requirements/backfill.txt
	@echo "Setting up: development packages, and PySpark"
	@$(PY) -m pip install -q --disable-pip-version-check --no-compile --require-hashes -r requirements/dev.txt -r requirements/backfill.txt
	@touch $@

demo: $(VENV)/.runtime ## the main job on embedded defaults, with a verdict
	@$(VENV)/bin/tidelog demo

# Processes that die, images and containers are mostly waited for, and some tools use one core: there
# something else runs beside them. apt takes one at a time. Spark takes all there is: containers
# beside it were so slow that some which worked were called ill.
BESIDE := --no-print-directory --jobs 2 --output-sync=line
ONE := --no-print-directory
test: $(PY) ## everything CI runs
	@tests/part.sh set-up 1.5 $(MAKE) $(BESIDE) $(VENV)/.dev debian
	@tests/part.sh "check to fuzz" 4 $(MAKE) $(BESIDE) beside-fuzz beside-crash
	@tests/part.sh unit 5 $(MAKE) $(ONE) unit
	@tests/part.sh adapters 3.5 $(MAKE) $(ONE) adapters
	@tests/part.sh simulation 6 $(MAKE) $(ONE) simulation
	@tests/part.sh "kills and beside them" 8 $(MAKE) $(BESIDE) kills beside-kills
	@tests/part.sh integration 9 $(MAKE) $(ONE) integration
	@tests/part.sh Spark 3 $(MAKE) $(ONE) spark
	@tests/part.sh "compose and beside it" 5 $(MAKE) $(BESIDE) compose beside-compose

debian: $(PY)
	@for what in compiler mariadb etcd nodejs java prometheus browser; do \
		$(MAKE) $(ONE) $$what || exit 1; done

beside-fuzz:
	@$(MAKE) $(ONE) check
	@$(MAKE) $(ONE) crash

beside-crash:
	@$(MAKE) $(ONE) compiled
	@$(MAKE) $(ONE) fuzz

beside-kills:
	@$(MAKE) $(ONE) fixtures
	@$(MAKE) $(ONE) faults
	@$(MAKE) $(ONE) console

beside-compose:
	@$(MAKE) $(ONE) soak
	@$(MAKE) $(ONE) models

mariadb: ## Debian's MariaDB for the tests (installs it when root, else says what is missing)
	@tests/need.sh mariadbd mariadb-server
	@tests/need.sh openssl openssl

etcd: ## Debian's etcd, in the place of PD's (the same)
	@tests/need.sh etcd etcd-server
	@tests/need.sh etcdctl etcd-client

prometheus: ## Prometheus and promtool for its rules (the same)
	@tests/need.sh promtool prometheus

java: ## a JDK 17 for Spark (the same)
	@tests/need.sh java openjdk-17-jre-headless

compiler: ## a C compiler for the compiled codecs (the same)
	@tests/need.sh cc gcc libc6-dev python3-dev

nodejs: $(VENV)/.nodejs ## Node.js for what is in JavaScript (the same), what that imports, and AsyncAPI's schema
$(VENV)/.nodejs: examples/nodejs/package.json tests/integration/asyncapi/package.json | $(PY)
	@tests/need.sh npm nodejs npm
	@cd examples/nodejs && npm install --no-package-lock --no-audit --no-fund --silent
	@cd tests/integration/asyncapi && npm install --no-package-lock --no-audit --no-fund --silent
	@touch $@

check: $(VENV)/.dev ## format, lint, types, import law, generated protobuf
	@$(PY) -m ruff format --check $(SOURCES) setup.py
	@$(PY) -m ruff check $(SOURCES) setup.py
	@$(PY) -m mypy $(SOURCES)
	@$(VENV)/bin/lint-imports --no-logo | tail -n 4
	@$(PYTEST) tests/unit/test_tidy.py tests/unit/test_proto.py

unit: $(VENV)/.dev ## pure rooms, kernel, ports conformance
	@$(PYTEST) -n 2 --dist worksteal tests/unit tests/conformance $(addprefix --ignore=,$(MODELS))

adapters: $(VENV)/.dev mariadb etcd ## what stands at a port, each against the real server it is for
	@$(IN_MEMORY) $(PYTEST) -n 3 --dist loadfile tests/adapters

models: $(VENV)/.dev ## state machines against their models, damage bit by bit
	@$(PYTEST) -n 2 $(MODELS)
	@$(PY) -m tests.crash.damage --share 8 --seed $(SEED) --jobs 2

.PHONY: coverage
coverage: $(VENV)/.dev mariadb etcd ## what unit tests and 50 histories run of the product, against its bars
	@$(PY) -m tests.coverage.run

wheel: $(VENV)/.dev compiler
	@rm -rf build/compiled
	@TIDELOG_COMPILE=1 $(PY) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation \
		-w build/compiled . $(LOUD_IF_FAILED)
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --target build/compiled/site build/compiled/*.whl

compiled: wheel ## what a wheel has compiled by mypyc, under the same tests
	@PYTHONPATH=build/compiled/site:. TIDELOG_TEST_COMPILED=1 $(PYTEST) tests/unit/rows tests/unit/plan tests/fixtures/test_decode_golden.py tests/unit/downstreams/test_statements.py

crash: $(VENV)/.dev ## what a power loss or a failing disk may leave, 10,000 states
	@$(PY) -m tests.crash.run --states $(STATES) --jobs 2
	@$(PY) -m tests.crash.nth_run --jobs 2
	@$(PYTEST) tests/crash

INPUTS ?= 50000
.PHONY: fuzz
fuzz: $(VENV)/.dev ## bad input to all that takes any, 50,000; in processes and at real servers
	@$(PY) -m tests.fuzz.run --inputs $(INPUTS) --seed $(SEED)
	@$(PYTEST) tests/fuzz

# A minute in CI; for long: make soak HOURS=3
SOAK := $(if $(HOURS),--minutes $(shell expr $(HOURS) '*' 60) --rate 580 --least 500,--minutes 1 --rate 200 --least 100)
.PHONY: soak
soak: $(VENV)/.dev ## load and kills, for a minute or HOURS=3: does anything grow?
	@$(PY) -m tests.soak.run $(SOAK)
	@$(PYTEST) tests/soak

simulation: $(VENV)/.dev ## seeded histories of whole clusters, and the planted bugs replayed
	@$(PY) -m tests.simulation.run --seeds $(SEEDS) --jobs 2
	@$(PY) -m tests.simulation.run --seeds $(PD_SEEDS) --jobs 2
	@$(PYTEST) -n 2 tests/simulation
	@$(PY) -m tests.planted.run --replay

kills: $(VENV)/.dev mariadb ## every failpoint fires, in one way each; every process is killed under load
	@$(PY) -m tests.kills.failpoints --actions 1 --seed $(SEED) --jobs 2
	@$(PY) -m tests.kills.rig --points 1 --seed $(SEED)
	@$(PY) -m tests.kills.rig --kills 40 --seed $(SEED)
	@$(PYTEST) tests/kills

fixtures: $(VENV)/.dev mariadb ## what a real TiDB wrote, codec to downstream
	@$(IN_MEMORY) $(PYTEST) tests/fixtures

spark: $(VENV)/.dev mariadb java ## the bulk pipeline, on a local Spark
	@$(PYTEST) -n 2 --dist loadfile tests/spark

console: $(VENV)/.dev browser ## the registry's page in a real browser
	@$(PYTEST) tests/console

browser: ## Chromium and tmux for the tests (the same)
	@tests/need.sh chromium chromium
	@tests/need.sh chromedriver chromium-driver
	@tests/need.sh tmux tmux

compose: $(VENV)/.dev ## docker compose up: built cold, scaled and killed under load, equal at the end
	@./tests/compose/with-engine $(PYTEST) -s tests/compose

integration: $(VENV)/.dev mariadb etcd nodejs prometheus ## real servers, real processes, kills
	@$(IN_MEMORY) $(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder tests/acceptance tests/integration

faults: $(VENV)/.dev mariadb ## the network, full disks and a lost NATS, on real processes
	@$(PYTEST) -s tests/faults

sim: $(VENV)/.dev ## replay one history with its trace: make sim SEED=7
	@$(PY) -m tests.simulation.run --seeds $(SEED):$$(($(SEED) + 1)) --trace

sim-full: $(VENV)/.dev ## go on with the running total of histories, up to 100,000
	@$(PY) -m tests.simulation.full --jobs 2

planted: $(VENV)/.dev ## every planted bug against the harness
	@$(PY) -m tests.planted.run

bench: $(VENV)/.dev mariadb wheel ## figures beside the limits of this machine
	@$(PY) -m bench

.PHONY: bench-report
bench-report: $(VENV)/.dev mariadb wheel ## docs/figures.md measured anew, on an idle machine (30 to 50 minutes)
	@$(PY) -m bench --report --runs 3 --json bench/figures.json
	@$(PY) -m bench.page --from bench/figures.json

full: $(VENV)/.dev mariadb etcd java wheel ## what is run once before a release, hours of it; goes on with what is left
	@$(PY) -m tests.full.run

# What each image installs: its extras of pyproject.toml, in the versions of runtime.txt and dev.txt.
COMPILE := uv pip compile --quiet --generate-hashes --no-header --python-version 3.11
OF_EXTRAS := $(COMPILE) -c requirements/runtime.txt pyproject.toml
requirements: ## renew the pins of the images (needs uv)
	@for service in registry pump drainer applier backfill; do \
		$(OF_EXTRAS) --extra $$service -o requirements/$$service.txt || exit 1; done
	@$(OF_EXTRAS) --extra cli --extra writer -o requirements/cli.txt
	@for tool in nats wheel; do $(COMPILE) requirements/$$tool.in -o requirements/$$tool.txt || exit 1; done

proto: $(VENV)/.dev ## regenerate shared/tidelog_proto from proto/
	@cd proto && ../$(PY) -m grpc_tools.protoc -I. --python_out=../shared --mypy_out=quiet:../shared \
		--plugin=protoc-gen-mypy=../$(VENV)/bin/protoc-gen-mypy tidelog_proto/*.proto

docs: $(VENV)/.dev ## write docs/reference and docs/asyncapi.yaml anew
	@$(PY) -m docs.generate
