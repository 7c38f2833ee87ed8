# The two main commands are `make demo` and `make test`. Each first installs and builds what is missing.
# TORCH=2.13.0 selects another environment, for which requirements/ has a file. TORCH=installed takes the torch and the
# packages of PYTHON, and downloads nothing.
PYTHON ?= python3
TORCH ?= $(if $(filter gpu,$(MAKECMDGOALS)),installed,2.9.0)
VENV := $(if $(filter 2.9.0,$(TORCH)),.venv,.venv-$(TORCH))
RUN := $(VENV)/bin/python
REQUIREMENTS := requirements/$(if $(filter installed,$(TORCH)),installed.py,torch-$(TORCH).txt)
WHEEL := build/wheel-$(TORCH)
SOURCES := policy.yaml pyproject.toml setup.py README.md LICENSE $(shell find codegen csrc python -type f -not -path '*/__pycache__/*' -not -path '*.egg-info/*')
CPP := $(shell find csrc tests/support/backend/csrc -name '*.cpp' -o -name '*.h')
# A worker that crashes ends the tests: without the last option they would wait for its replacement forever.
PARALLEL = $(shell $(RUN) -c 'import xdist' 2>/dev/null && echo --numprocesses auto --maxprocesses 4 --dist loadfile --max-worker-restart 0)
# Shortens each line of ninja to its number and the source.
PROGRESS := sed -u -e 's/^\(\[[0-9/]*\]\) .* -c \S*\/\(\S*\/\S*\) .*/\1 \2/' -e '/ -MMD -MF /d'
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

ifeq ($(wildcard $(REQUIREMENTS)),)
  $(error There is no $(REQUIREMENTS); TORCH is one of $(patsubst requirements/torch-%.txt,%,$(sort $(wildcard requirements/torch-*))) installed)
endif

.PHONY: demo test docs dist gpu lint format build syntax sanitize ecosystem clean distclean always
.DELETE_ON_ERROR:

demo: build
	$(RUN) examples/digits.py

# Lint, types and the site are checked in the reference environment only. The tests of real devices run a second time, on
# the backend of tests/support/backend.
test: build $(if $(filter .venv,$(VENV)),lint $(VENV)/docs)
	$(RUN) -m pytest $(PARALLEL)
	$(RUN) -m tests.support.backend -m pytest $(PARALLEL) --real-devices mimic

# The site, in build/docs/html/. A broken reference is a warning, and a warning fails.
docs: build $(VENV)/docs
	@TORCH_CPP_LOG_LEVEL=ERROR $(RUN) -m sphinx -W --keep-going -q -j 2 -d build/docs/doctrees docs build/docs/html
	@echo "The site is in build/docs/html/index.html"

$(VENV)/docs: requirements/docs.txt $(VENV)/installed
	$(RUN) -m pip install --disable-pip-version-check --quiet -r $<
	@touch $@

# Takes from an accelerator what it can show in ten minutes, into a JSON and a Markdown file in build/on_device/. DEVICE=cpu
# takes the CPU.
gpu: $(VENV)/installed
	@$(RUN) -m tools.on_device --environment $(TORCH) $(if $(DEVICE),--device $(DEVICE))

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
# The machine's pip may be missing or reach no index, so the wheel is unpacked.
INSTALL = rm -rf $(VENV)/lib/*/site-packages/polycast* && $(RUN) -m zipfile -e $(WHEEL)/*.whl $(VENV)/lib/*/site-packages
$(VENV)/installed: always
	@$(PYTHON) $(REQUIREMENTS) $(VENV)
else
INSTALL = $(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEEL)/*.whl
$(VENV)/installed: $(REQUIREMENTS) requirements/common.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --disable-pip-version-check -r $(REQUIREMENTS)
	@touch $@
endif

$(VENV)/built: $(VENV)/installed $(SOURCES)
	@$(RUN) -m codegen
	@echo "Building polycast for torch $(TORCH)"
	@rm -rf $(WHEEL)
	@env -u PYTHONDONTWRITEBYTECODE $(RUN) -c 'from setuptools.build_meta import build_wheel; build_wheel("$(WHEEL)", {"--global-option": "--quiet"})' | $(PROGRESS)
	@$(INSTALL)
	@touch $@

# Checks the C++ against the headers of these releases. It downloads each once, 80 MB or more, and takes minutes.
syntax: $(VENV)/installed
	$(RUN) -m tools.headers 2.10.0 2.11.0 2.12.0 newest

# Compiles everything with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the kernels' tests. It takes minutes.
sanitize: $(VENV)/installed
	$(RUN) -m tools.sanitize

# Runs the package in other packages' trainers, in an environment of its own. It takes minutes. CELLS="lightning skip"
# selects the cells whose names contain all of these words.
ecosystem: export USE_TORCH_XLA := 0
ecosystem: .venv-ecosystem/built
	@PYTHONPATH=$(CURDIR)/.venv-ecosystem/xla .venv-ecosystem/bin/python -m pytest -q tests/workflows tests/test_docstrings.py tests/docs/test_pages.py -k "integrations or trainers"
	@.venv-ecosystem/bin/python -m tools.ecosystem $(CELLS)

.venv-ecosystem/installed: requirements/ecosystem.txt requirements/ecosystem-xla.txt requirements/common.txt
	python3 -m venv .venv-ecosystem
	.venv-ecosystem/bin/python -m pip install --disable-pip-version-check -r $<
	.venv-ecosystem/bin/python -m pip install --disable-pip-version-check --no-deps --target .venv-ecosystem/xla -r requirements/ecosystem-xla.txt
	@touch $@

.venv-ecosystem/built: .venv/built .venv-ecosystem/installed
	@.venv-ecosystem/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheel-2.9.0/*.whl
	@touch $@

# Makes the source distribution and a wheel for each torch of requirements/, in build/dist/, and proves them: their files,
# their metadata, and each installed and used in a new environment. RELEASES="2.9.0 2.13.0" takes these alone, and in
# another clone PYTHON=python3.12 TORCH=2.13.0 RELEASES=2.13.0 another Python.
RELEASES ?= $(patsubst requirements/torch-%.txt,%,$(shell ls -v requirements/torch-*.txt))
dist: $(VENV)/installed
	@$(RUN) -m tools.dist $(RELEASES)

clean:
	rm -rf build python/*.egg-info python/polycast/*.so python/polycast/_built_for.py .venv*/built

distclean: clean
	rm -rf .venv*
