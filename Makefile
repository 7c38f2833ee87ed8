# The two main commands are `make demo` and `make test`. Each first installs and builds the missing parts.
# `TORCH=2.13.0` selects an environment with that PyTorch, without XLA. `TORCH=installed` uses the PyTorch and the
# packages of `PYTHON`, and downloads nothing.
PYTHON ?= python3
TORCH ?= $(if $(filter gpu,$(MAKECMDGOALS)),installed,2.9.0)
VENV := $(if $(filter 2.9.0,$(TORCH)),.venv,.venv-$(TORCH))
RUN := $(VENV)/bin/python
PINS := tests/environments/constraints.txt
PIP_INSTALL := -m pip install --disable-pip-version-check --constraint $(PINS)
WHEEL := build/wheel-$(TORCH)
SOURCES := policy.yaml pyproject.toml setup.py README.md LICENSE $(shell find codegen csrc python -type f -not -path '*/__pycache__/*' -not -path '*.egg-info/*')
CPP := $(shell find csrc tests/support/backend/csrc -name '*.cpp' -o -name '*.h')
# With the last option, a worker that crashes ends the tests. Otherwise the tests wait forever for a new worker.
PARALLEL = $(shell $(RUN) -c 'import xdist' 2>/dev/null && echo --numprocesses auto --maxprocesses 4 --dist worksteal --max-worker-restart 0)
# `PROGRESS` shortens each line of ninja to its number and the source.
PROGRESS := sed -u -e 's/^\(\[[0-9/]*\]\) .* -c \S*\/\(\S*\/\S*\) .*/\1 \2/' -e '/ -MMD -MF /d'
CHECKS = $(if $(filter .venv,$(VENV)),@$(MAKE) --no-print-directory --jobs=2 --output-sync lint docs)
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

.PHONY: demo test test-all docs dist gpu lint format build sanitize ecosystem clean distclean always
.DELETE_ON_ERROR:

demo: build
	$(RUN) examples/digits.py

# Only the reference environment checks lint, types and the site. The second pytest runs the tests of real devices on
# the backend in `tests/support/backend/`.
test: build
	$(CHECKS)
	$(RUN) -m pytest $(PARALLEL)
	$(RUN) -m tests.support.backend -m pytest $(PARALLEL) --real-devices mimic

# Runs all tests, including the slow ones.
test-all: build
	$(CHECKS)
	$(RUN) -m pytest $(PARALLEL) -m ''
	$(RUN) -m tests.support.backend -m pytest $(PARALLEL) -m '' --real-devices mimic

# Builds the site in `build/docs/html/`. A broken reference is a warning, which ends the build with an error.
docs: build $(VENV)/docs
	@TORCH_CPP_LOG_LEVEL=ERROR $(RUN) -m sphinx -W --keep-going -q -j 2 -d build/docs/doctrees docs build/docs/html
	@echo "The site is in build/docs/html/index.html"

$(VENV)/docs: $(VENV)/installed
	$(RUN) $(PIP_INSTALL) --quiet --group docs
	@touch $@

# Runs the tests of real devices and two benchmarks on this machine's accelerator, for at most ten minutes. `DEVICE=cpu`
# selects the CPU.
DEVICE ?= $(shell $(RUN) -c 'import torch; print(torch.accelerator.current_accelerator() or "cpu")')
gpu: build
	timeout 420 $(RUN) -m pytest $(PARALLEL) --real-devices $(DEVICE)
	timeout 90 $(RUN) -m benchmarks.optimizers --device $(DEVICE)
	timeout 90 $(RUN) -m benchmarks.optimizers --whole --device $(DEVICE)

lint: $(VENV)/installed
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	$(VENV)/bin/clang-format --dry-run --Werror $(CPP)
	$(RUN) -m codegen --check

format: $(VENV)/installed
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format
	$(VENV)/bin/clang-format -i $(CPP)

build: $(VENV)/built

ifeq ($(TORCH),installed)
# We unpack the wheel, because the machine's pip may be missing or have no access to an index.
INSTALL = rm -rf $(VENV)/lib/*/site-packages/polycast* && $(RUN) -m zipfile -e $(WHEEL)/*.whl $(VENV)/lib/*/site-packages
$(VENV)/installed: always
	@$(PYTHON) tests/environments/installed.py $(VENV)
else
INSTALL = $(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEEL)/*.whl
$(VENV)/installed: pyproject.toml $(PINS)
	$(PYTHON) -m venv $(VENV)
	$(RUN) $(PIP_INSTALL) --quiet pip
	$(RUN) $(PIP_INSTALL) torch==$(TORCH) $(if $(filter 2.9.0,$(TORCH)),torch_xla torchvision) --group test
	@touch $@
endif

$(VENV)/built: $(VENV)/installed $(SOURCES)
	@$(RUN) -m codegen
	@echo "Building polycast for torch $(TORCH)"
	@rm -rf $(WHEEL)
	@env -u PYTHONDONTWRITEBYTECODE $(RUN) -c 'from setuptools.build_meta import build_wheel; build_wheel("$(WHEEL)", {"--global-option": "--quiet"})' | $(PROGRESS)
	@$(INSTALL)
	@touch $@

# Compiles the C++ with AddressSanitizer and UndefinedBehaviorSanitizer, and tests the kernels. This takes minutes.
sanitize: $(VENV)/installed
	$(RUN) -m tests.slow.sanitize

# Runs the package in other packages' trainers, in a separate environment. This takes minutes. `CELLS="lightning skip"`
# selects the cells whose names contain both words.
ecosystem: export USE_TORCH_XLA := 0
ecosystem: .venv-ecosystem/built
	@PYTHONPATH=$(CURDIR)/.venv-ecosystem/xla .venv-ecosystem/bin/python -m pytest -q -m '' tests/workflows tests/test_docstrings.py tests/docs/test_pages.py -k "integrations or trainers"
	@.venv-ecosystem/bin/python -m tests.slow.ecosystem $(CELLS)

# Accelerate uses XLA if it finds `torch_xla`. So `torch_xla` is in a separate folder, for the tests only.
.venv-ecosystem/installed: pyproject.toml $(PINS)
	$(PYTHON) -m venv .venv-ecosystem
	.venv-ecosystem/bin/python $(PIP_INSTALL) --quiet pip
	.venv-ecosystem/bin/python $(PIP_INSTALL) torch==2.9.0 --group ecosystem
	.venv-ecosystem/bin/python $(PIP_INSTALL) --no-deps --target .venv-ecosystem/xla torch_xla absl-py
	@touch $@

.venv-ecosystem/built: .venv/built .venv-ecosystem/installed
	@.venv-ecosystem/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheel-2.9.0/*.whl
	@touch $@

# Builds the source distribution and a wheel for each of these releases in `build/dist/`, and tests each installation.
RELEASES ?= 2.9.0 2.13.0 2.15.0
dist: $(VENV)/installed
	@$(RUN) -m tests.slow.dist $(RELEASES)

clean:
	rm -rf build python/*.egg-info python/polycast/*.so python/polycast/_built_for.py .venv*/built

distclean: clean
	rm -rf .venv*
