# Every target does its own set-up, once: a virtual environment in .venv (and .referee).
#
#   make demo     answer a prompt with SmolLM2 and a DFlash2 drafter, then compare with plain decoding
#   make test     ruff, mypy and all tests
#   make lint     ruff and mypy only
#   make gpu      loop and training on a GPU against the CPU; TORCH=... names a torch that has CUDA
#   make referee  record tests/fixtures anew with other people's implementations (see referee/README.md)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?= torch==2.13.0
PROMPT ?= A baker sells 12 loaves in the morning and twice as many in the afternoon, for 3 dollars each. How much does she earn that day?
WORKERS ?= 2

BIN := .venv/bin
ENVIRONMENT := .venv/.environment
READY := .venv/.ready
KERNELS := $(shell find native -name '*.cpp' -o -name '*.h' -o -name CMakeLists.txt)
# What building the extension takes besides a C++ compiler, and where the compiled parts stay. Where
# there is no compiler: make BUILD="-C wheel.cmake=false" (everything then runs on torch).
TOOLS := "scikit-build-core>=0.10" "nanobind>=2" cmake ninja
BUILD ?= -C build-dir=build/{wheel_tag}
REFEREE_READY := .referee/.ready

.PHONY: demo test lint gpu referee

demo: $(READY)
	$(BIN)/draftwalk run --compare -n 64 "$(PROMPT)"

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

gpu: $(READY)
	$(BIN)/python -c "import torch; print(torch.cuda.get_device_name())"
	$(BIN)/pytest tests/gpu -n 0 -v

referee: $(REFEREE_READY)
	PYTHONPATH=src:tests .referee/bin/python referee/run.py

$(ENVIRONMENT): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$(TORCH)" $(TOOLS)
	touch $@

# Without isolation the compiled parts are used again: a changed kernel takes seconds.
$(READY): $(ENVIRONMENT) $(KERNELS)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-build-isolation \
		$(BUILD) --editable ".[dev]"
	touch $@

$(REFEREE_READY): referee/requirements.txt referee/requirements-nodeps.txt
	$(PYTHON) -m venv .referee
	.referee/bin/python -m pip install --quiet -r referee/requirements.txt
	.referee/bin/python -m pip install --quiet --no-deps -r referee/requirements-nodeps.txt
	touch $@
