ENV_FROM ?= auto
# ^ where the environment comes from: auto, conda, channels or wheels; auto asks the network once
# Python of the environment by wheels: 3.9 to 3.12, or a path (empty: 3.9 where it is found)
PYTHON ?=
# floor: the oldest versions supported, by wheels (empty: the locked ones)
TORCH ?=
# the environment's folder; another PYTHON or TORCH gets its own beside it
VENV ?= .venv$(if $(TORCH),-$(TORCH))$(if $(PYTHON),-$(patsubst python%,%,$(notdir $(PYTHON))))
# 1: an existing environment may be deleted to build it another way
FORCE ?=
# an image folder to train on (empty: the generated sample)
DATA ?=
# a run's folder to go on with
RESUME ?=
# more arguments for the program that a target starts
ARGS ?=
# the image: what it is built on (empty: the pinned Debian), runtime or dev
BASE_IMAGE ?=
TARGET ?=
# the file that env-export writes (empty: the screen)
OUT ?=

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
.DELETE_ON_ERROR:

# a value may hold blanks: recipes read it from the environment, as "$$NAME"
export ENV_FROM PYTHON TORCH VENV FORCE DATA RESUME OUT
# only what the lock says is imported
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH PYTHONHOME
PY := "$$VENV/bin/python"

.PHONY: help
help:  ## Show this text
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Environment

.PHONY: env
env:  ## Make the environment, bring it up to date or repair it (ENV_FROM=, PYTHON=, TORCH=floor)
	@scripts/env.sh

.PHONY: env-export
env-export:  ## Write what is really installed, with hashes (OUT=FILE)
	@scripts/env.sh >&2
	@$(PY) scripts/env/export.py

.PHONY: verify-env
verify-env: env  ## Compare every installed file with the lock
	@$(PY) scripts/verify_env.py

.PHONY: lock
lock:  ## Solve the locks again
	@scripts/env.sh tools
	@scripts/lock.sh

.PHONY: lock-check
lock-check:  ## Check, offline, that the locks agree with what was asked for
	@scripts/env.sh tools
	@.tools/bin/python scripts/lock_check.py

##@ Training

.PHONY: train
train: env  ## Train on the generated sample, or on DATA=DIR (RESUME=, ARGS="--optim.epochs 5")
	@test -n "$$DATA$$RESUME" || $(PY) scripts/sample_data.py
	@$(PY) -m train fit $(TRAIN_ARGS) $(ARGS)
TRAIN_ARGS = $(if $(RESUME),--run.resume "$$RESUME",--config configs/$(if $(DATA),folder,sample).yaml) $(if $(DATA),--data.path "$$DATA")

.PHONY: lab
lab:  ## Print JupyterLab's address: the container's where it runs, else one starts here on 127.0.0.1
	@scripts/lab.sh $(ARGS)

##@ Image

image up ssh: export ARGS := $(ARGS)
image: export BASE_IMAGE := $(BASE_IMAGE)
image: export TARGET := $(TARGET)

.PHONY: image
image:  ## Build the image and say how to run it (ENV_FROM=wheels, TARGET=dev, BASE_IMAGE=)
	@scripts/image.sh build

.PHONY: up
up:  ## Start the container: JupyterLab, SSH when a key is given; with the GPU where there is one
	@scripts/image.sh up

.PHONY: down
down:  ## Stop and remove the container; its volumes stay
	@scripts/image.sh down

.PHONY: shell
shell:  ## Open a shell in the container
	@scripts/image.sh shell

.PHONY: ssh
ssh:  ## Log in to the container by SSH
	@scripts/image.sh ssh

.PHONY: logs
logs:  ## Show what the container says
	@scripts/image.sh logs

.PHONY: image-test
image-test: env  ## Build the image and test it (minutes; needs Docker, or root with CI=true)
	@scripts/env.sh tools
	@$(PY) -m pytest -m docker tests/docker $(ARGS)

##@ Quality

.PHONY: test
test: env  ## Run the tests that need no GPU (PYTHON=3.12, TORCH=floor, ARGS="-k loader")
	@$(PY) -m pytest $(ARGS)

.PHONY: test-gpu
test-gpu: env  ## Run the tests that need a GPU; they skip where there is none
	@$(PY) -m pytest -m gpu tests/gpu $(ARGS)

.PHONY: bench-peers
bench-peers: env  ## Race the loader against the others that install here, 20 minutes (DATA=, ARGS="--only ours,dali", --quick)
	@scripts/env.sh tools
	@$(PY) benchmarks/loaders.py $(if $(DATA),--data "$$DATA") $(ARGS)

.PHONY: check
check: env  ## Look for mistakes without running anything: ruff, mypy, shellcheck where it is installed
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@if command -v shellcheck >/dev/null; then shellcheck -x scripts/*.sh scripts/*/*.sh docker/*.sh benchmarks/*.sh .ci/run; else echo "shellcheck is not installed: *.sh not checked"; fi

.PHONY: fmt
fmt: env  ## Format the code and mend what can be mended
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

.PHONY: clean
clean:  ## Remove the environment, the tools and caches; never runs/, data/ or what others made
	@scripts/env.sh clean
