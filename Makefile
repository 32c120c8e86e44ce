# Everything happens in .venv, made with pip. `make help` lists the targets.

PYTHON ?= python3
PIP_ARGS ?=
TEST_JOBS ?= 2
VERIFY_ARGS ?=
BENCH_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install train test verify check bench docs clean
MAKEFLAGS += --no-print-directory

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Make .venv with Whorl, every extra and the development tools

$(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here; name a Python >= 3.11: make PYTHON=/path/to/python3 install" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Whorl needs Python >= 3.11, $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.11 install" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "$(PYTHON) -m venv failed; install Python's venv module (Debian: the package python3-venv)" >&2; exit 1; }
	@echo "Installing Whorl into $(VENV) (a minute or two, once) ..."
	@$(BIN)/pip install -qq --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[dev]'
	@! command -v c++ >/dev/null || $(BIN)/pip install -qq --disable-pip-version-check $(PIP_ARGS) -c constraints.txt -e '.[tetris]' \
		|| echo "whorl[tetris] could not be installed (its emulator is compiled); all else works" >&2
	@touch $@

train: install ## Train PPO on CartPole-v1 until it balances, and draw its learning curve
	@run=runs/first-$$(date +%Y%m%d-%H%M%S) && \
	$(BIN)/whorl train ppo CartPole-v1 --stop-return 475 --run-dir $$run && \
	$(BIN)/whorl plot $$run -o $$run/curve.png >/dev/null && \
	printf '\nThe learning curve is %s\n\nAlso worth a try (%s is the whorl of this machine)\n' "$$run/curve.png" "$(BIN)/whorl" && \
	printf '  %-62s %s\n' "$(BIN)/whorl train ppo Pendulum-v1" "another environment" \
		"$(BIN)/whorl train ppo CartPole-v1 --actors 2 --envs-per-actor 8" "two actor processes, the same result" \
		"$(BIN)/whorl list agents" "what else there is; docs/tutorial.md goes on from here"

check: install ## Lint, format, types, layering, documentation (what CI runs before the tests)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "badly formatted; mend with: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/reference.py --check
	@$(BIN)/python tools/matrix.py --check
	@$(BIN)/python tools/check_docs.py

test: check ## Check, then run every test but the long ones
	@$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal

verify: install ## Run everything, long tests too; resumable; writes docs/results/verify-<date>.md
	@$(BIN)/python tools/verify.py $(VERIFY_ARGS)

bench: install ## Measure against peers, each in an environment of its own below .bench/
	@$(BIN)/whorl bench $(BENCH_ARGS)

docs: install ## Write the generated reference pages again and check every link
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/matrix.py
	@$(BIN)/python tools/check_docs.py

clean: ## Remove .venv, caches and benchmark environments; runs and evidence stay
	rm -rf $(VENV) .bench .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
