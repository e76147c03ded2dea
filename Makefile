# Everything here works in .venv, which is made when it is first needed.
SHELL := /bin/sh
PYTHON ?=
# What follows `pip install` for another torch than the tested one; kept until it is
# changed, and `make env TORCH=` goes back.
CHOSEN := $(shell cat .venv/.torch 2>/dev/null)
TORCH ?= $(CHOSEN)
export PYTHON TORCH

PY := .venv/bin/python
READY := .venv/.ready
PIP := $(PY) -m pip --disable-pip-version-check
# EXTRA: packages that not everybody wants, as Slurm's, which bring services along.
EXTRA ?=
SYSTEM := bubblewrap chromium debootstrap fonts-dejavu-core fonts-liberation iproute2 $(EXTRA)

# What JupyterHub sends its users through; it is no Python package.
PROXY := configurable-http-proxy@5.1.0

IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# Not empty where .venv has lost its Python or the clone has moved: then set up again.
STALE := $(shell test -x $(PY) && test "$$(cat $(READY) 2>/dev/null)" = "$$(pwd -P)" \
	|| echo FORCE)
ifneq ($(TORCH),$(CHOSEN))
STALE := FORCE
endif
AS_ROOT := $(shell test "$$(id -u)" != 0 || echo --allow-root)

.PHONY: help env proxy lab book test test-units test-slow test-gpu lint format exercises badges bench \
	versions system clean FORCE

help:
	@echo "make lab        JupyterLab on chapters/  (LAB_ARGS='--no-browser --port 9999')"
	@echo "make book       the chapters, executed, as a site in build/book/" \
		" (BOOK_ARGS='5' for a preview of one)"
	@echo "make env        only the environment, .venv  (PYTHON=python3.12, TORCH='...')"
	@echo "make test-units the tests without processes, in half a minute"
	@echo "make test       the tests of at most 5 minutes  (PYTEST_ARGS='-k ring')"
	@echo "make test-slow  the other tests"
	@echo "make test-gpu   the tests that want a GPU, and why they are skipped"
	@echo "make lint       ruff and mypy; make format repairs what ruff can"
	@echo "make exercises  what students get, generated from solutions/"
	@echo "make badges     the first cell and the Colab badge of every notebook" \
		" (REPOSITORY=owner/name TAG=v1)"
	@echo "make bench      the benchmarks, as a table  (BENCH_ARGS='...')"
	@echo "make versions   the tests that lean on torch, on the oldest to the newest torch" \
		" (VERSIONS='2.6.0', 8 GB)"
	@echo "make system     optional system packages that some tests want (apt-get)"
	@echo "make proxy      JupyterHub's proxy in .venv/bin, for a course on a hub (npm)"
	@echo "make clean      remove .venv, build/ and the caches"

env: $(READY)
	@echo "env: .venv is ready ($$($(PY) -V), torch $$($(PY) -c \
	'from importlib.metadata import version; print(version("torch"))'))"

# .installing stays behind only where a set-up was killed: what it left is not trusted.
# Nor is what has moved, as the scripts in .venv/bin begin with their old path.
$(READY): pyproject.toml constraints.txt $(STALE)
	@if [ -e .venv/.installing ] || ! $(PY) -c 'import pip; $(IS_NEW_ENOUGH)' 2>/dev/null \
		|| [ "$$(cat $(READY) 2>/dev/null || pwd -P)" != "$$(pwd -P)" ]; \
	then \
		if [ -n "$$PYTHON" ]; then set -- "$$PYTHON"; \
		else set -- python3 python3.13 python3.12 python3.11 python; fi; \
		for python; do "$$python" -c '$(IS_NEW_ENOUGH)' 2>/dev/null && break; python=; done; \
		if [ -z "$$python" ]; then \
			found=$$("$$1" -V 2>/dev/null) || found="not found"; \
			echo "env: Python 3.11 or newer is needed and $$1 is $$found: install a newer" \
				"one, or name it with make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; \
			exit 1; \
		fi; \
		"$$python" -c 'import ensurepip, venv' 2>/dev/null || { \
			echo "env: $$python lacks the venv module: on Debian and Ubuntu," \
				"apt install python3-venv" >&2; exit 1; }; \
		echo "env: making .venv with $$("$$python" -V)"; \
		"$$python" -m venv --clear .venv || { \
			echo "env: .venv could not be made, for the reason above" >&2; exit 1; }; \
	fi; \
	rm -f $(READY); touch .venv/.installing
	@[ "$$TORCH" != "$$(cat .venv/.torch 2>/dev/null)" ] || exit 0; \
	rm -f .venv/.torch; $(PIP) uninstall -qq --yes torch; \
	[ -n "$$TORCH" ] || exit 0; \
	echo "env: installing the torch you chose: $$TORCH"; \
	$(PIP) install -qq $$TORCH && $(PIP) show -qq torch || { \
		rm -f .venv/.installing; \
		echo "env: pip could not install that torch; TORCH takes what follows" \
			"'pip install'" >&2; exit 1; }; \
	echo "$$TORCH" > .venv/.torch
	@echo "env: installing into .venv (minutes the first time, mostly torch)"; \
	grep -v '^torch==' constraints.txt > .venv/constraints.txt; \
	if [ -e .venv/.torch ]; then $(PIP) freeze 2>/dev/null | grep '^torch=='; \
	else grep '^torch==' constraints.txt; fi >> .venv/constraints.txt; \
	$(PIP) install -qq -c .venv/constraints.txt -e '.[dev]' || { \
		rm -f .venv/.installing; \
		echo "env: pip failed with the error above; without a network nothing can be" \
			"installed, and a very new Python may have no torch yet (try another with" \
			"PYTHON=python3.12 after make clean)" >&2; exit 1; }
	@pwd -P > $(READY); rm -f .venv/.installing

proxy: $(READY)
	@command -v npm >/dev/null || { \
		echo "proxy: there is no npm here; on Debian and Ubuntu: apt install npm" >&2; \
		exit 1; }
	@echo "proxy: installing $(PROXY) into .venv"
	@npm install --loglevel=error --no-audit --no-fund --no-update-notifier \
		--global --prefix "$(CURDIR)/.venv" $(PROXY)

lab: $(READY)
	@echo "lab: starting JupyterLab on chapters/ (Ctrl-C twice stops it)"
	@JUPYTER_CONFIG_PATH="$(CURDIR)/book/jupyter:$$JUPYTER_CONFIG_PATH" \
		exec $(PY) -m jupyterlab $(AS_ROOT) --ServerApp.root_dir=. \
		--LabApp.default_url=/lab/tree/chapters $(LAB_ARGS)

book: $(READY)
	@echo "book: executing the chapters that have changed, then building the site"
	@$(PY) -m book $(BOOK_ARGS)

# Tests wait for processes and deadlines more than they compute, so two files at a time,
# in the order in which they are collected, so that the longest files come first.
TWO_FILES := -n 2 --dist loadfile --no-loadscope-reorder

test-units: $(READY)
	@echo "test-units: the tests that start next to no processes"
	@$(PY) -m pytest -m "not slow" $(TWO_FILES) tests/units $(PYTEST_ARGS)

test: $(READY)
	@echo "test: all tests but the slow ones (make test-slow)"
	@$(PY) -m pytest -m "not slow" $(TWO_FILES) $(PYTEST_ARGS)

test-slow: $(READY)
	@echo "test-slow: the tests marked slow"
	@$(PY) -m pytest -m slow $(TWO_FILES) $(PYTEST_ARGS)

test-gpu: $(READY)
	@echo "test-gpu: what wants a GPU; without pytest: python tests/gpu/run.py --out DIR"
	@$(PY) -m pytest -m gpu -rs $(PYTEST_ARGS)

lint: $(READY)
	@echo "lint: ruff on code and notebooks, mypy on the package"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: $(READY)
	@echo "format: ruff repairs code and notebooks"
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

exercises: $(READY)
	@echo "exercises: what students get, made by nbgrader from solutions/"
	@cd autograder && for folder in ../solutions/*/; do \
		case "$$folder" in */chapters/) continue;; esac; \
		../$(PY) -m nbgrader generate_assignment "$$(basename "$$folder")" \
			--force --no-db --log-level ERROR || exit 1; \
	done

# Only what the command line gives changes the setting, not what the environment holds.
badges: $(READY)
	@$(PY) -m book.badges \
		$(if $(filter command,$(origin REPOSITORY)),--repository '$(REPOSITORY)') \
		$(if $(filter command,$(origin TAG)),--tag '$(TAG)')

bench: $(READY)
	@echo "bench: measuring beside the peers; a quiet machine gives steadier figures"
	@$(PY) -m benchmarks $(BENCH_ARGS)

versions: $(READY)
	@echo "versions: one environment a torch, removed after its tests (8 GB of disk)"
	@$(PY) tests/machines/versions.py $(VERSIONS)

system:
	@if ! command -v apt-get >/dev/null; then \
		echo "system: there is no apt-get here; these are optional and some tests skip" \
			"without them: $(SYSTEM)"; exit 0; \
	fi; \
	missing=; \
	for package in $(SYSTEM); do \
		dpkg-query -W -f '$${Status}' $$package 2>/dev/null \
			| grep -q '^install ok installed' || missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then echo "system: all there: $(SYSTEM)"; exit 0; fi; \
	sudo=; \
	if [ "$$(id -u)" != 0 ]; then \
		sudo=sudo; \
		command -v sudo >/dev/null || { \
			echo "system: not root and no sudo; to be installed by root, all optional:" \
				"apt-get install$$missing"; exit 0; }; \
	fi; \
	echo "system: installing with apt-get:$$missing"; \
	$$sudo apt-get -qq update || true; \
	failed=; \
	for package in $$missing; do \
		$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
			--no-install-recommends install $$package >/dev/null \
			|| failed="$$failed $$package"; \
	done; \
	[ -z "$$failed" ] || { echo "system: apt-get could not install$$failed; they are" \
		"optional, and the tests that want them skip" >&2; exit 1; }

clean:
	@echo "clean: removing .venv, build/ and the caches"
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
