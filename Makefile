# `make` prints this list. Everything runs from the virtual environment in .venv, which `make setup`
# makes and keeps up to date.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.setup-stamp
# Processes for the tests: a driver spreads one kernel over all cores, so more brings nothing.
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-targets test-torch test-examples fuzz conformance gpu-check \
	lint format bench bench-engines sweep sweep-smoke lint-workflows release-check docs docs-serve

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with the package, two OpenCL drivers for the CPU, and the tools

# torchvision's metadata asks for the exact torch that is pinned, so a plain install neither
# replaces the CPU build nor brings CUDA. setuptools comes first because the editable install
# builds without isolation: isolated builds would take it unpinned.
$(STAMP): pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --constraint constraints.txt setuptools
	$(PY) -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--editable '.[cpu,sweep,dev]'
	touch $@

demo: setup ## Train a small network, on `ocl` too, run two larger ones; compare with eager and Inductor
	$(PY) -m benchmarks.demo

# Instruction sets that the drivers of CPUs are told to make code for, in place of this processor's.
TARGETS ?= avx2 sse4.2

test: setup ## Run the tests on every OpenCL driver there is
	tools/apt_drivers.sh
	$(PY) -m pytest tests -n $(JOBS) --dist worksteal -m "not slow"
	JOBS=$(JOBS) DEVICES=intel,pocl-3.0 tools/test_targets.sh "$(TARGETS)" tests/device/test_templates.py

test-all: setup test-targets ## Run the slow tests as well, and those for other processors
	tools/apt_drivers.sh
	$(PY) -m pytest tests -n $(JOBS) --dist worksteal

test-targets: setup ## Run device and model tests as on older processors (TARGETS="avx2 sse4.2")
	JOBS=$(JOBS) tools/test_targets.sh "$(TARGETS)" tests/device tests/models

# Another PyTorch: VERSION=2.11.0.
VERSION ?= 2.14.1
test-torch: ## Run the tests with another PyTorch (VERSION=2.11.0); brings 5 GB, some minutes
	JOBS=$(JOBS) tools/test_torch.sh $(VERSION)

test-examples: ## Run the examples in an environment of their own; brings 1 GB, some minutes
	tools/test_examples.sh $(EXAMPLES)

# Fuzzing goes on with the fault tests: processes killed, disks full, caches deleted.
MINUTES ?= 10
FUZZ ?=
fuzz: setup ## Compile random programs and compare with eager (MINUTES=60); then break the caches
	failed=0; \
	$(PY) -m fuzz --minutes $(MINUTES) $(FUZZ) || failed=1; \
	$(PY) -m pytest tests/faults -m slow || failed=1; \
	exit $$failed

# CONFORMANCE="--eager" runs them one by one on ocl tensors instead; --help lists the options.
CONFORMANCE ?=
conformance: setup ## Compile every operator of PyTorch's own list and compare with eager; hours
	$(PY) -m conformance $(CONFORMANCE)

# GPU_CHECK="--update" puts on record what got better; --help lists the options.
GPU_CHECK ?=
gpu-check: setup ## Compile kernels with offline GPU compilers, compare with the record; five minutes
	tools/gpu_lab.sh
	$(PY) -m gpu_check $(GPU_CHECK)

lint: setup ## Check style and types
	$(PY) -m ruff check .
	$(PY) -m mypy

format: setup ## Format the sources
	$(PY) -m ruff format .

bench: setup ## Time models, inference and training, against eager and Inductor; an hour
	$(PY) -m benchmarks.run table --json bench.json
	$(PY) -m benchmarks.run table --training --json bench-training.json

$(VENV)/.engines-stamp: $(STAMP)
	$(PY) -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[engines]'
	touch $@

bench-engines: $(VENV)/.engines-stamp ## Time networks against ONNX Runtime and OpenVINO, which they are exported to
	$(PY) -m benchmarks.run engines --device intel --against inductor-freezing \
		--against onnxruntime --against openvino --json bench-engines.json

# Where `make sweep` keeps its results; it goes on there when it was interrupted.
SWEEP  ?= sweep-results/full

MODES ?= --inference --training
sweep-smoke: setup ## Check the accuracy of about ten small models; minutes
	$(VENV)/bin/ocl-inductor sweep run --suite smoke $(MODES) --accuracy

sweep: setup ## Every model of TorchBench: accuracy and performance, resumable; many hours
	$(VENV)/bin/ocl-inductor sweep run --inference --training --accuracy --performance \
		--backend inductor --backend opencl --output $(SWEEP) --resume

# Tools of these have environments of their own, without the package and PyTorch.
RELEASE_PY := .venv-release/bin/python

.venv-release/.setup-stamp: pyproject.toml
	test -x $(RELEASE_PY) || $(PYTHON) -m venv .venv-release
	$(RELEASE_PY) tools/requirements_of.py release >.venv-release/requirements.txt
	$(RELEASE_PY) -m pip install --quiet --requirement .venv-release/requirements.txt
	touch $@

lint-workflows: .venv-release/.setup-stamp ## Check the workflows of GitHub and the issue forms
	$(RELEASE_PY) tools/release_check.py --workflows

# RELEASE_CHECK=--all: a Python that is not here is an error; --only 3.11: that one alone.
RELEASE_CHECK ?=
release-check: .venv-release/.setup-stamp ## Build, install into each Python there is, use, uninstall
	$(RELEASE_PY) tools/release_check.py $(RELEASE_CHECK)

DOCS_PY := .venv-docs/bin/python

.venv-docs/.setup-stamp: pyproject.toml
	test -x $(DOCS_PY) || $(PYTHON) -m venv .venv-docs
	$(DOCS_PY) tools/requirements_of.py docs >.venv-docs/requirements.txt
	$(DOCS_PY) -m pip install --quiet --requirement .venv-docs/requirements.txt
	touch $@

docs: .venv-docs/.setup-stamp ## Build the documentation as a site, in site/; a dead link is an error
	$(DOCS_PY) tools/site/build.py

docs-serve: .venv-docs/.setup-stamp ## Show the site at http://127.0.0.1:8000
	$(DOCS_PY) tools/site/build.py --serve
