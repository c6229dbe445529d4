# Gauss: `make` lists the targets. `make demo`, `make demo-fleet` and `make test` need nothing but Python 3.11+ and Java 17.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 \t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: .venv/.done ## makes .venv with gauss in it

.venv/.done: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Gauss needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup ## a whole market through Spark into ClickHouse, live, for half a minute (FOREVER=1 goes on)
	$(BIN)/python examples/12-market/demo.py $(if $(FOREVER),--forever)

demo-fleet: setup ## pipelines as a service, from Kafka into ClickHouse, for half a minute (FOREVER=1 goes on)
	$(BIN)/python examples/fleet/demo.py $(if $(FOREVER),--forever)

PACKAGES := chromium btrfs-progs podman runc

packages: ## installs the OS packages that tests need: a browser, btrfs, containers (as root; else it names them)
	@missing=$$(for each in $(PACKAGES); do dpkg -s $$each >/dev/null 2>&1 || echo $$each; done); \
	test -z "$$missing" || { test "$$(id -u)" = 0 && apt-get -o DPkg::Lock::Timeout=300 update --quiet >/dev/null && \
		apt-get -o DPkg::Lock::Timeout=300 install --yes --quiet --no-install-recommends $$missing >/dev/null; } || \
		echo "Tests of pages, btrfs and containers need these packages, installed as root with make packages:" $$missing

screenshots: setup packages ## takes docs/graph.png of the running demo
	$(BIN)/python -m docs.screenshots

# One process more than cores of a small machine: each waits for servers half of its time.
test: setup packages .cache/standing.jsa .cache/spark.jsa ## all tests
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 15 $(PYTEST_FLAGS)

# Java's class archives, made once: every JVM that the tests start is up some seconds sooner.
.cache/standing.jsa: TRAINED = nothing
.cache/%.jsa: | .venv/.done
	GAUSS_CACHE_DIR=$(CURDIR)/.cache $(BIN)/python -m gauss.spark.archive $(CURDIR)/.cache/training $(TRAINED)
	@rm -rf .cache/training

QUICK := not spark and not fault and not system

# Measured tests are slower: one that fails for it is reported, and the report is written all the same.
coverage: setup $(if $(ALL),.cache/standing.jsa .cache/spark.jsa) ## what the quick tests run (ALL=1: all tests); pages in .cache/coverage/html
	mkdir -p .cache/coverage && $(BIN)/coverage erase
	-$(BIN)/coverage run -m pytest --numprocesses 2 --dist loadfile -q \
		$(if $(ALL),--no-loadscope-reorder --timeout 1200,-m "$(QUICK)") $(PYTEST_FLAGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report --sort=cover

lint: setup ## ruff, mypy strict, the layers
	$(BIN)/ruff check src tests examples bench .ci
	$(BIN)/ruff format --check src tests examples bench .ci
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## ratios against peers and limits, kept in bench/results.md
	$(BIN)/python -m bench

kills: setup .cache/standing.jsa .cache/spark.jsa ## kills parts of syncs 200 times; goes on where it was stopped
	GAUSS_CACHE_DIR=$(CURDIR)/.cache PYTHONPATH=tests $(BIN)/python -m helpers.sync_kills $(KILLS_FLAGS)

kafka-kills: setup .cache/standing.jsa .cache/spark.jsa ## kills parts of a run on Kafka 100 times; goes on likewise
	GAUSS_CACHE_DIR=$(CURDIR)/.cache PYTHONPATH=tests $(BIN)/python -m helpers.kafka_kills $(KILLS_FLAGS)

db-kills: setup ## kills parts of prepared databases 200 times; goes on likewise
	PYTHONPATH=tests $(BIN)/python -m helpers.dbstates_kills $(KILLS_FLAGS)

fleet-kills: setup .cache/standing.jsa .cache/spark.jsa ## kills parts of a fleet 100 times; goes on likewise
	GAUSS_CACHE_DIR=$(CURDIR)/.cache PYTHONPATH=tests $(BIN)/python -m helpers.fleet_kills $(KILLS_FLAGS)

docs: setup ## writes the generated pages of docs/ again
	$(BIN)/python -m docs.generate

clean: ## removes what setup and runs have made
	rm -rf .venv .gauss .cache .mypy_cache .ruff_cache .pytest_cache

.PHONY: help setup demo demo-fleet packages screenshots test coverage lint bench kills kafka-kills fleet-kills db-kills docs clean
