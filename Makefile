# Holdfast. `make` prints what there is. Needs Python 3.11 or newer, make and git; everything else goes into .venv.
.DEFAULT_GOAL := help
.PHONY: help install up test check conformance sim sim-long bench bench-quick quality docs servers fmt lock release clean

# Each of the hundreds of processes that the tests start would compile everything again if none might keep it.
unexport PYTHONDONTWRITEBYTECODE

RUN := .venv/installed-run
DEV := .venv/installed-dev
BIN := .venv/bin

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

install: $(DEV) ## install everything into .venv

$(RUN): requirements/run.txt requirements/model.txt requirements/bootstrap.txt pyproject.toml packages/holdfast-systems/pyproject.toml packages/holdfast-proof/pyproject.toml
	@scripts/install run

$(DEV): requirements/dev.txt requirements/model.txt requirements/bootstrap.txt pyproject.toml packages/holdfast-systems/pyproject.toml packages/holdfast-proof/pyproject.toml
	@scripts/install dev

up: $(RUN) ## run all three systems at http://127.0.0.1:8000 until Ctrl-C
	@$(BIN)/holdfast up

test: $(DEV) servers style ## run every check and every test, with private PostgreSQL and RabbitMQ
	@$(MAKE) --no-print-directory -j2 types tests
	@$(BIN)/python -m tests.spec_table --last --summary

check: $(DEV) style ## the fast loop: format, lint, types, imports, fast tests
	@$(MAKE) --no-print-directory -j2 types fast

.PHONY: lint style types tests fast
lint: $(DEV)
	@$(MAKE) --no-print-directory -j2 style types

style:
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@out=$$($(BIN)/lint-imports --no-logo --cache-dir .cache/importlinter) || { echo "$$out"; exit 1; }

types:
	@$(BIN)/mypy --strict

fast:
	@$(BIN)/python -m pytest -q --fast -n 2 --dist loadscope

tests:
	@mkdir -p .cache && rm -f .cache/forgiven.txt
	@$(BIN)/python -m compileall -q -j 2 src  # once, and not by each of the four processes; the tests, as pytest compiles them
	@$(BIN)/python -m pytest -q --collect-only -n 0 > .cache/collected.txt || { tail -30 .cache/collected.txt; exit 1; }
	@$(BIN)/python -m pytest -q -n 4 --dist loadscope || { \
		[ $$? = 1 ] || exit 1; $(BIN)/python -m tests.forgiven > .cache/forgiven.txt; \
		echo "Once more, alone, what failed beside the others:"; cat .cache/forgiven.txt; \
		$(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }

conformance: $(DEV) servers ## print the specification's rows with their tests and state
	@$(BIN)/python -m tests.spec_table

sim: $(DEV) ## 200 seeded simulations of every system
	@$(BIN)/holdfast simulate --seeds 200 --system all

sim-long: $(DEV) ## one hour of fresh seeds of every system, in turn
	@$(BIN)/holdfast simulate --minutes 60 --system all

bench: $(DEV) servers ## measure Holdfast and its peers on the same work, and write down what came of it
	@$(BIN)/python -m bench --out bench/results/latest.json

bench-quick: $(DEV) servers ## the ratios to pgqueuer and to the floor, in under two minutes
	@$(BIN)/python -m bench --quick

quality: $(DEV) ## measure grades, transcripts, XML and reviews on inputs with known answers, against their goals
	@$(BIN)/python -m quality

docs: $(DEV) ## write the reference from the code, build the site into build/site, and check both: examples run, links lead somewhere
	@$(BIN)/python scripts/reference
	@$(BIN)/python scripts/build_site build/site
	@$(BIN)/python -m pytest -q tests/docs

servers: $(DEV) ## fetch PostgreSQL's, RabbitMQ's, Node.js's and Chromium's programs for the tests, if they are missing
	@$(BIN)/python scripts/servers

fmt: $(DEV) ## format, and mend what the linter can mend
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

lock: $(DEV) ## compile the pinned requirements from pyproject.toml
	@scripts/lock

release: test ## test, build the distributions into dist/, check them and tag the commit; nothing is uploaded
	@$(BIN)/python scripts/release

clean: ## remove what was installed and cached; data/ stays
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
