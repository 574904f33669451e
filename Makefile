# `make serve` and `make test` are all that a newcomer needs; both install what is missing into .venv first.
#
#   make serve                          http://127.0.0.1:8000
#   make serve PORT=9000 DEVICE=cuda    another port, another device; HOST=0.0.0.0 to be reached from other machines
#   make install                        the installing alone
#   make test                           ruff, mypy and every test, the pages in a real Chromium among them
#   make screenshots                    the pictures in docs/screenshots, anew
#   make lint | wheel | clean
#
# PYTHON names the interpreter that makes .venv (3.11 or newer), VENV another place for it.

PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 8000
DEVICE ?=
WORKERS ?= 2

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help serve install test lint chromium screenshots wheel clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

serve: $(VENV)/installed
	@$(BIN)/vitrine serve --host $(HOST) --port $(PORT) $(if $(DEVICE),--device $(DEVICE))

install: $(VENV)/installed

# The stamps are newer than what they were made from as long as nothing has to be installed again.
$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Vitrine needs Python 3.11 or newer, and $(PYTHON) is not; say which one to use: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

# One thread for each worker: workers whose threads compete for the same cores are slower than one worker alone.
test: lint chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

# Debian's package where it can be installed and runs, Playwright's own download elsewhere.
chromium: $(VENV)/installed-test
	@for name in $$VITRINE_CHROMIUM chromium chromium-browser google-chrome; do \
		$$name --version >/dev/null 2>&1 && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; \
		chromium --version 2>/dev/null && exit 0; \
	fi; \
	$(BIN)/playwright install chromium

# The pictures of docs/workbench.md and of the README.
SHOTS := compare deletion-image help history image layers look method mixer prompt prompt-words segments text versus words
screenshots: chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.browser.screenshots --out docs/screenshots --only $(SHOTS)

wheel: $(VENV)/installed-test
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
