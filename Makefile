# Everything happens in .venv, which the first target that needs it makes.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo test lint clean

PYTHON ?=
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
PY := .venv/bin/python
LOG := .venv/install.log

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1 \2/p' Makefile | awk '{ t = $$2; $$1 = $$2 = ""; printf "make %-8s%s\n", t, $$0 }'
	@echo "PYTHON=/path/to/python3 chooses the interpreter of a new .venv (3.11 or newer)"

demo: .venv/demo.stamp ## Run the bundled quickstart and say where its report is
	@.venv/bin/stageout run scenarios/quickstart.yaml
	@if [ -f runs/quickstart/report.html ]; then echo "report: runs/quickstart/report.html"; \
	else echo "results: runs/quickstart"; fi

test: lint ## Lint, check types, run every test
	@$(PY) -m pytest -n auto --dist loadfile

lint: .venv/test.stamp ## Lint and check types only
	@$(PY) -m ruff check --output-format concise .
	@$(PY) -m mypy

clean: ## Remove .venv and caches; runs/ stays
	@rm -rf .venv dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are older than a changed pyproject.toml or constraints.txt: then pip runs again.
.venv/demo.stamp: pyproject.toml constraints.txt
	@$(call install,.)
	@touch $@

.venv/test.stamp: pyproject.toml constraints.txt
	@$(call install,.[test])
	@touch .venv/demo.stamp $@

# $(call install,WHAT): a .venv with WHAT in it, or one line on why not and the end of the log.
define install
fail() { echo "error: $$1" >&2; exit 1; }; \
new_enough() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; \
if [ ! -e .venv ]; then \
	python=; for p in $(CANDIDATES); do if new_enough "$$p"; then python=$$p; break; fi; done; \
	[ -n "$$python" ] || fail "no Python 3.11 or newer among: $(CANDIDATES); say make PYTHON=/path/to/python3"; \
	"$$python" -m venv .venv >venv.log 2>&1 || { \
		tail -n 5 venv.log >&2; rm -rf .venv venv.log; \
		fail "$$python -m venv .venv failed (Debian keeps venv in a package of its own, python3-venv)"; }; \
	mv venv.log $(LOG); \
fi; \
new_enough $(PY) || fail ".venv has no Python 3.11 or newer: make clean, then again"; \
echo "installing $(1) into .venv: 1.4 GB with a CPU build of torch, 5 GB with CUDA (log: $(LOG))"; \
$(PY) -m pip install --disable-pip-version-check --no-input --progress-bar off \
	-c constraints.txt -e '$(1)' >$(LOG) 2>&1 || { \
	{ grep -i 'error:' $(LOG) || tail -n 5 $(LOG); } | tail -n 5 >&2; \
	fail "pip could not install $(1); is there a network? (log: $(LOG))"; }
endef
