# The doors of the project. `make` alone explains them.
.DEFAULT_GOAL := help
.PHONY: help setup lock demo up down test check bench bench-matrix clean
SHELL := /bin/bash
BIN := .venv/bin
export PYTHONUTF8 := 1
# The stack starts many short programs; compiling this checkout anew in each costs seconds.
unexport PYTHONDONTWRITEBYTECODE
# Large pages: on a virtual machine whose memory is slow, everything in Python takes half the time
# (design/017-two-instances-on-two-cores.md). The same words as in adapters/vllm/command.py.
export PYTHONMALLOC ?= malloc
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.top_pad=67108864

help: ## Explain the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv hold exactly the lock (ENGINE=gpu for a GPU host, PYTHON=… for another interpreter)
	@ENGINE="$(ENGINE)" PYTHON="$(PYTHON)" scripts/setup.sh

demo: setup ## Run the whole story on real vLLM: snapshot, healthy hour, damaged weights, verdict (ARGS=--full: all cases)
	@$(BIN)/quality demo $(ARGS)

up: setup ## Start S3, MLflow, Airflow and vLLM on this machine and print where they are
	@$(BIN)/quality stack up

down: ## End everything that `up` or `demo` has started
	@if [[ -x $(BIN)/quality ]]; then $(BIN)/quality stack down; fi

test: setup ## Run all tests (ARGS="-m 'not vllm'" passes arguments to pytest)
	@$(BIN)/pytest $(ARGS); code=$$?; \
	  if [ $$code = 0 ]; then echo "make test: all passed"; \
	  else echo "make test: failed, pytest ended with $$code; its summary is above"; fi; exit $$code

check: setup ## Check format, lint, types and the arrow of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## Measure what the README promises; results go to bench/results
	@$(BIN)/python -m bench.run_all $(ARGS)

bench-matrix: setup ## Record and score the silent-fault matrix on real vLLM (ARGS=--short for a trial, --medium for a night; it goes on where it stopped)
	@$(BIN)/python -m bench.matrix record $(ARGS)
	@$(BIN)/python -m bench.matrix score $(ARGS)

lock: setup ## Compile requirements.txt anew from requirements.in
	@scripts/lock.sh

clean: down ## Remove the environment and every file that the stack has written
	rm -rf .venv .quality .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
