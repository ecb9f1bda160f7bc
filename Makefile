# `make serve` and `make test` are all the set-up there is: they make the virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NODE_MODULES := examples/typescript/node_modules
COMPILE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q

.PHONY: help serve test lint unit redis pgbouncer browser bench crash examples openapi lock clean

help: ## What each target does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A stamp a lock: the environment is made anew only when what it must hold has changed.
$(VENV)/serve.stamp: requirements/serve.txt pyproject.toml
	@echo "Installing what the service needs into $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else 0'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/serve.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/serve.stamp
	@echo "Installing what the tests need into $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

# By the npm of the wheel of Node.js that the tests need.
$(NODE_MODULES): examples/typescript/package-lock.json $(VENV)/dev.stamp
	@echo "Installing what the TypeScript example needs ..."
	@cd examples/typescript && PATH=$(CURDIR)/$(BIN):$$PATH npm ci --loglevel=error \
		|| { echo "npm cannot install examples/typescript, so its tests would fail: it must reach a package registry"; exit 1; }
	@touch $@

serve: $(VENV)/serve.stamp ## Run the service on http://127.0.0.1:8000 with a database of its own
	@exec $(BIN)/rendezvous serve

test: $(VENV)/dev.stamp lint unit ## Everything that must hold: style, types, imports, tests, coverage
	@echo "Left out, since it needs more than pip installs: make redis (rate limits shared in Redis), make pgbouncer (behind PgBouncer in transaction mode), make browser (the docs page in Chromium)"

lint: $(VENV)/dev.stamp ## Style, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

unit: $(VENV)/dev.stamp $(NODE_MODULES) ## The tests, with branch coverage
	$(BIN)/pytest -n 3 --dist worksteal --cov --cov-report=term:skip-covered

redis: $(VENV)/dev.stamp ## Rate limits that processes share, in a real Redis, which it installs on Debian as root
	@command -v redis-server >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			|| { echo "redis-server is needed: install it (Debian: apt-get install redis-server)"; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server; }
	$(BIN)/pytest tests/with_redis.py

pgbouncer: $(VENV)/dev.stamp ## The service behind a real PgBouncer, which it installs on Debian as root
	@command -v pgbouncer >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			|| { echo "pgbouncer is needed: install it (Debian: apt-get install pgbouncer)"; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq pgbouncer; }
	$(BIN)/pytest tests/with_pgbouncer.py

browser: $(VENV)/dev.stamp ## The docs page in a headless Chromium, which it installs on Debian as root
	@command -v chromium >/dev/null || { \
		test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			|| { echo "Chromium is needed: install it (Debian: apt-get install chromium)"; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; }
	$(BIN)/pytest tests/with_browser.py

bench: $(VENV)/dev.stamp ## Measure speed as ratios; writes docs/bench.md
	$(BIN)/python -m bench

crash: $(VENV)/dev.stamp ## Kill and stop workers, the service and Postgres in mid-load; nothing may be lost
	$(BIN)/python -m bench.crash

examples: $(VENV)/dev.stamp ## Record the contract's examples anew, and write what is made from them
	$(BIN)/python tests/recording.py
	@$(MAKE) openapi

openapi: $(VENV)/dev.stamp ## Write openapi.yaml and docs/errors.md anew from the code
	$(BIN)/python -m service.api.spec > openapi.yaml
	$(BIN)/python -m service.api.errors > docs/errors.md

lock: $(VENV)/dev.stamp ## Write the locks in requirements/ anew from pyproject.toml
	$(COMPILE) --extra server --group build -o requirements/server.txt
	$(COMPILE) --extra server --extra embedded --group build -o requirements/serve.txt
	$(COMPILE) --extra server --extra embedded --group dev -o requirements/dev.txt

clean: ## Remove what was built here
	rm -rf $(VENV) build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache $(NODE_MODULES)
