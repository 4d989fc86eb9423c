# Every target does its own set-up, once: a virtual environment in .venv (and .referee).
#
#   make demo     answer a prompt with SmolLM2 and a DFlash2 drafter, then compare with plain decoding
#   make test     ruff, mypy and all tests
#   make lint     ruff and mypy only
#   make referee  record tests/fixtures anew with other people's implementations (see referee/README.md)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?= torch==2.13.0
PROMPT ?= Explain in a few sentences why the sky is blue.
WORKERS ?= 2

BIN := .venv/bin
READY := .venv/.ready
REFEREE_READY := .referee/.ready

.PHONY: demo test lint referee

demo: $(READY)
	$(BIN)/draftwalk run --compare -n 64 "$(PROMPT)"

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

referee: $(REFEREE_READY)
	PYTHONPATH=src:tests .referee/bin/python referee/run.py

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(REFEREE_READY): referee/requirements.txt referee/requirements-nodeps.txt
	$(PYTHON) -m venv .referee
	.referee/bin/python -m pip install --quiet -r referee/requirements.txt
	.referee/bin/python -m pip install --quiet --no-deps -r referee/requirements-nodeps.txt
	touch $@
