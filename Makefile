# The two main commands are `make demo` and `make test`. Each first installs and builds what is missing.
# TORCH=2.13.0 selects another environment, for which requirements/ has a file.
TORCH ?= 2.9.0
VENV := $(if $(filter 2.9.0,$(TORCH)),.venv,.venv-$(TORCH))
PYTHON := $(VENV)/bin/python
REQUIREMENTS := requirements/torch-$(TORCH).txt
WHEEL := build/wheel-$(TORCH)
SOURCES := policy.yaml pyproject.toml setup.py $(shell find codegen csrc python -type f -not -path '*/__pycache__/*' -not -path '*.egg-info/*')
CPP := $(shell find csrc -name '*.cpp' -o -name '*.h')
# Shortens each line of ninja to its number and the source.
PROGRESS := sed -u -e 's/^\(\[[0-9/]*\]\) .* -c \S*\/\(\S*\/\S*\) .*/\1 \2/' -e '/ -MMD -MF /d'
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

ifeq ($(wildcard $(REQUIREMENTS)),)
  $(error There is no $(REQUIREMENTS); TORCH is one of $(patsubst requirements/torch-%.txt,%,$(wildcard requirements/torch-*)))
endif

.PHONY: demo test lint format build syntax sanitize ecosystem clean distclean
.DELETE_ON_ERROR:

demo: build
	$(PYTHON) examples/digits.py

# Lint and types are checked in the reference environment only.
test: build $(if $(filter .venv,$(VENV)),lint)
	$(PYTHON) -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

lint: $(VENV)/installed
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(VENV)/bin/clang-format --dry-run --Werror $(CPP)
	$(PYTHON) -m codegen --check

format: $(VENV)/installed
	$(PYTHON) -m ruff check --fix
	$(PYTHON) -m ruff format
	$(VENV)/bin/clang-format -i $(CPP)

build: $(VENV)/built

$(VENV)/installed: $(REQUIREMENTS) requirements/common.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --disable-pip-version-check -r $(REQUIREMENTS)
	@touch $@

$(VENV)/built: $(VENV)/installed $(SOURCES)
	@$(PYTHON) -m codegen
	@echo "Building polycast for torch $(TORCH)"
	@rm -rf $(WHEEL)
	@$(PYTHON) -c 'from setuptools.build_meta import build_wheel; build_wheel("$(WHEEL)", {"--global-option": "--quiet"})' | $(PROGRESS)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $(WHEEL)/*.whl
	@touch $@

# Checks the C++ against the headers of these releases. It downloads each once, 80 MB or more, and takes minutes.
syntax: $(VENV)/installed
	$(PYTHON) -m tools.headers 2.10.0 2.11.0 2.12.0 newest

# Compiles everything with AddressSanitizer and UndefinedBehaviorSanitizer, and runs the kernels' tests. It takes minutes.
sanitize: $(VENV)/installed
	$(PYTHON) -m tools.sanitize

# Runs the package in other packages' trainers, in an environment of its own. It takes minutes. CELLS="lightning skip"
# selects the cells whose names contain all of these words.
ecosystem: export USE_TORCH_XLA := 0
ecosystem: .venv-ecosystem/built
	@PYTHONPATH=$(CURDIR)/.venv-ecosystem/xla .venv-ecosystem/bin/python -m pytest -q tests/workflows tests/test_docstrings.py -k "integrations or trainers"
	@.venv-ecosystem/bin/python -m tools.ecosystem $(CELLS)

.venv-ecosystem/installed: requirements/ecosystem.txt requirements/ecosystem-xla.txt requirements/common.txt
	python3 -m venv .venv-ecosystem
	.venv-ecosystem/bin/python -m pip install --disable-pip-version-check -r $<
	.venv-ecosystem/bin/python -m pip install --disable-pip-version-check --no-deps --target .venv-ecosystem/xla -r requirements/ecosystem-xla.txt
	@touch $@

.venv-ecosystem/built: .venv/built .venv-ecosystem/installed
	@.venv-ecosystem/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheel-2.9.0/*.whl
	@touch $@

clean:
	rm -rf build python/*.egg-info python/polycast/*.so python/polycast/_built_for.py .venv*/built

distclean: clean
	rm -rf .venv*
