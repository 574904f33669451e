# `make serve` and `make test` are all that a newcomer needs; both install what is missing into .venv first.
#
#   make serve                          http://127.0.0.1:8000
#   make serve PORT=9000 DEVICE=cuda    another port, another device; HOST=0.0.0.0 to be reached from other machines
#   make install                        the installing alone
#   make test                           ruff, mypy, import-linter, oxlint, oxfmt and every test, the pages in a real Chromium among them
#   make check                          ruff, mypy, import-linter, oxlint, oxfmt and the quick tests
#   make system-test                    attack servers: many clients, processes killed; SECONDS=180 CLIENTS=32 KILLS=20
#   make screenshots                    the pictures in docs/screenshots, anew
#   make results                        what docs/results holds of scenes and samples, measured anew (over two hours on one core)
#   make results-data DATA=DIR          the rest of it, where the data is at hand
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

.PHONY: help serve install test system-test all-tests check quick lint chromium fonts screenshots results results-data wheel clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

serve: $(VENV)/installed
	@$(BIN)/vitrine serve --host $(HOST) --port $(PORT) $(if $(DEVICE),--device $(DEVICE))

install: $(VENV)/installed

# The stamps are newer than what they were made from as long as nothing has to be installed again. The bytecode is made by all cores, where
# pip would take one, and only of what is likely to be imported; Python makes the rest when it is. It says that templates do not compile.
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
	$(INSTALL) .
	$(COMPILE)
	@touch $@

# It has all that $(VENV)/installed has.
$(VENV)/installed-test: pyproject.toml constraints.txt | $(VENV)/made
	$(INSTALL) '.[test]' --quiet
	$(COMPILE)
	@touch $(VENV)/installed $@

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/oxlint static
	$(BIN)/oxfmt --check 'static/**/*.js'

# A file stays in one worker, and files keep their order, which begins with the one that takes longest (tests/conftest.py). A worker starts
# at most two servers, of tiny and of embedded models, and a Chromium for each typeface, for all its browser tests.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# mypy from nothing takes as long as many tests: it runs beside them.
test: chromium
	@$(MAKE) --no-print-directory -j 2 lint all-tests

all-tests: $(VENV)/installed-test
	$(PYTEST)

# How long many clients ask, how many they are, and how often a process is killed.
SECONDS ?= 180
CLIENTS ?= 32
KILLS ?= 20

system-test: $(VENV)/installed-test
	SYSTEM_SECONDS=$(SECONDS) SYSTEM_CLIENTS=$(CLIENTS) SYSTEM_KILLS=$(KILLS) $(BIN)/python -m pytest -m system tests/system --timeout 900

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

# The pictures of docs/workbench.md and of the README.
SHOTS := compare deletion-image help history image layers look method mixer prompt prompt-words regions text versus words
screenshots: chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.browser.screenshots --out docs/screenshots --only $(SHOTS)

# Each read-out with the ordinary gradient beside Libra, the other rules of Input x Gradient, relevance, attention, and the control.
METHODS := random,raw_attention,rollout,gradcam_attention,gradcam_attention:libra,generic_attention,generic_attention:libra,attcat,attcat:libra,transformer_attribution,partial_lrp,lrp,token_tm,token_tm:libra,input_x_gradient,input_x_gradient:libra,input_x_gradient:conservative,input_x_gradient:attnlrp,hirescam,hirescam:libra,gradcam_plus,gradcam_plus:libra,xgradcam_plus,xgradcam_plus:libra,fullgrad,fullgrad:libra,fullgrad_plus,fullgrad_plus:libra
# What is left of Libra FullGrad+ without one of its rules, and of Transformer Attribution without its gradient or with one block alone.
ABLATIONS := random,fullgrad_plus:libra,fullgrad_plus:libra-attention,fullgrad_plus:libra-norm,fullgrad_plus:libra-attention-norm,fullgrad_plus:libra-activation,fullgrad_plus:libra-product,fullgrad_plus:libra-bias,fullgrad_plus,transformer_attribution,transformer_attribution_without_gradient,transformer_attribution_last_block,transformer_attribution_second_block

# What is asked about prompts on photos: the above, and what reads the attention of a text and picture encoder.
PROMPT_METHODS := $(METHODS),legrad,legrad:libra,grad_eclip,grad_eclip:libra,pa_lrp,saliency
TEXT_METHODS := $(METHODS),saliency,input_x_gradient:conservative-attention
# Where Libra does not help: which of its rules it is.
ATTENTION_ABLATIONS := random,generic_attention,generic_attention:libra,generic_attention:libra-attention,generic_attention:libra-norm,generic_attention:libra-attention-norm,generic_attention:libra-activation,token_tm,token_tm:libra,token_tm:libra-attention,token_tm:libra-norm,token_tm:libra-attention-norm,token_tm:libra-activation

# The slow ones that the sanity runs leave out, beside a few of those that they have.
SLOW_METHODS := random,raw_attention,generic_attention,input_x_gradient,fullgrad_plus:libra,decompx,decompx:libra,globenc,alti,integrated_gradients,integrated_gradients:libra,integrated_gradients:conservative,integrated_gradients:attnlrp,smoothgrad,smoothgrad:libra,smoothgrad:conservative,smoothgrad:attnlrp,attention_flow,occlusion,rise,kernel_shap,lime

SCENES_METRICS := mif,mif_aopc,lif,srg,completeness,ap,energy,pointing
ABLATION_METRICS := mif,mif_aopc,lif,srg,ap,pointing
BLACK_METRICS := mif,lif,srg,positive_auc,negative_auc
PHOTO_METRICS := mif,lif,srg,completeness,ap,energy,pointing
SENTENCE_METRICS := auac,au_mse,mif,lif,srg
PHOTO_PROMPT_METRICS := own_object,pointing,ap,energy
PROMPT_METRICS := own_object,pointing,ap,energy,class_correlation
SANITY_METRICS := randomisation,class_correlation,sensitivity,agreement
TEXT_SANITY_METRICS := randomisation,class_correlation,agreement
RATIONALE_METRICS := token_f1_10,token_f1_20,token_f1_30,token_f1_40,token_f1_50,token_f1_60,token_f1_70,token_f1_80,auprc

# $(call measure,NAME,OPTIONS), OPTIONS without a comma of its own: a run of vitrine evaluate, its reports in docs/results/NAME. A run that
# was stopped goes on: its rows are kept
# in build/results.
define measure
	@mkdir -p build/results docs/results/$(1)
	OMP_NUM_THREADS=1 $(BIN)/vitrine evaluate --device cpu --out build/results/$(1) $(2)
	rm -f docs/results/$(1)/examples.json
	cd build/results/$(1) && cp $$(ls report.html *.json) $(CURDIR)/docs/results/$(1)
endef

# What needs no download.
results: $(VENV)/installed-test
	$(call measure,scenes-vit-on-scenes,--model scenes-vit --dataset scenes --limit 500 --methods $(METHODS) --metrics $(SCENES_METRICS))
	$(call measure,scenes-vit-ablations-attention,--model scenes-vit --dataset scenes --limit 200 --methods $(ATTENTION_ABLATIONS) --metrics $(ABLATION_METRICS) --no-examples)
	$(call measure,scenes-vit-ablations,--model scenes-vit --dataset scenes --limit 60 --methods $(ABLATIONS) --metrics $(ABLATION_METRICS) --no-examples)
	$(call measure,scenes-vit-ablations-black,--model scenes-vit --dataset scenes --limit 30 --how black --methods $(ABLATIONS) --metrics $(BLACK_METRICS) --no-examples)
	$(call measure,clip-on-scenes-pairs,--model clip --dataset scenes-pairs --limit 60 --target each --methods $(METHODS) --metrics $(PROMPT_METRICS))
	$(call measure,scenes-vit-sanity,--model scenes-vit --dataset scenes --limit 18 --methods quick --metrics $(SANITY_METRICS) --no-examples)
	$(call measure,photos-vit-sanity,--model photos-vit --dataset sample-photos --limit 6 --methods quick --metrics $(SANITY_METRICS) --no-examples)
	$(call measure,reviews-bert-sanity,--model reviews-bert --dataset sample-reviews --methods quick --metrics $(TEXT_SANITY_METRICS) --no-examples)
	$(call measure,clip-sanity,--model clip --dataset scenes-pairs --limit 10 --methods quick --metrics $(SANITY_METRICS) --no-examples)
	$(call measure,scenes-vit-sanity-slow,--model scenes-vit --dataset scenes --limit 3 --methods $(SLOW_METHODS) --metrics randomisation_end --no-examples)
	$(call measure,photos-vit-sanity-slow,--model photos-vit --dataset sample-photos --limit 3 --methods $(SLOW_METHODS) --metrics randomisation_end --no-examples)
	$(call measure,reviews-bert-sanity-slow,--model reviews-bert --dataset sample-reviews --limit 3 --methods $(SLOW_METHODS) --metrics randomisation_end --no-examples)
	$(call measure,clip-sanity-slow,--model clip --dataset scenes-pairs --limit 1 --methods $(SLOW_METHODS) --metrics randomisation_end --no-examples)

# What needs data: DATA is a folder with coco, sst2 and eraser in it, each as docs/evaluation.md says that its publisher lays it out.
results-data: $(VENV)/installed-test
	@test -d "$(DATA)" || { echo "say where the data is: make results-data DATA=DIR, with coco, sst2 and eraser in it" >&2; exit 2; }
	$(call measure,photos-vit-on-coco,--model photos-vit --dataset coco --data $(DATA)/coco --limit 60 --methods $(METHODS) --metrics $(PHOTO_METRICS) --no-examples)
	$(call measure,clip-on-coco-pairs,--model clip --dataset coco-pairs --data $(DATA)/coco --target each --methods $(PROMPT_METHODS) --metrics $(PHOTO_PROMPT_METRICS) --no-examples)
	$(call measure,reviews-bert-on-sst-2,--model reviews-bert --dataset sst-2 --data $(DATA)/sst2 --limit 100 --methods $(TEXT_METHODS) --metrics $(SENTENCE_METRICS) --no-examples)
	$(call measure,reviews-bert-on-imdb,--model reviews-bert --dataset imdb --data $(DATA)/imdb --limit 20 --long-texts cut --methods $(TEXT_METHODS) --metrics $(SENTENCE_METRICS) --no-examples)
	$(call measure,reviews-bert-on-eraser-movies,--model reviews-bert --dataset eraser-movies --data $(DATA)/eraser --limit 20 --target gold --methods $(TEXT_METHODS) --metrics $(RATIONALE_METRICS) --no-examples)

wheel: $(VENV)/installed-test
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
