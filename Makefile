ENV_FROM ?= auto
# ^ where the environment comes from: auto, conda, channels or wheels; auto asks the network once
# Python of the environment by wheels: 3.9 to 3.12, or a path (empty: 3.9 where it is found)
PYTHON ?=
# floor: the oldest versions supported, current: the newest ones, both by wheels (empty: the locked ones)
TORCH ?=
# the environment's folder; another PYTHON or TORCH gets its own beside it
VENV ?= .venv$(if $(TORCH),-$(TORCH))$(if $(PYTHON),-$(patsubst python%,%,$(notdir $(PYTHON))))
# 1: an existing environment may be deleted to build it another way
FORCE ?=
# what make init calls the project
NAME ?=
# an image folder to train on (empty: the generated sample)
DATA ?=
# a run's folder to go on with
RESUME ?=
# ranks to train on, one a GPU, by torchrun (empty: one process)
GPUS ?=
# 1: make profile also writes a trace by torch's profiler
TRACE ?=
# more arguments for the program that a target starts
ARGS ?=
# the image: what it is built on (empty: the pinned Debian), runtime or dev
BASE_IMAGE ?=
TARGET ?=
# the file that env-export writes (empty: the screen)
OUT ?=

# inputs that make fuzz reads
COUNT ?= 1000000
# kills of make chaos in all, and what its faults are drawn from
KILLS ?= 200
SEED ?= 1

# make knows data and DATA apart, and data=DIR would be ignored without a word
SMALL := $(strip $(foreach one,args base_image count data env_from force gpus kills name out python \
  resume seed target torch trace venv,$(if $(filter command,$(origin $(one))),$(one))))
$(if $(SMALL),$(error "$(SMALL)" on the command line is no setting; expected capitals: \
  $(shell echo "$(SMALL)" | tr a-z A-Z)))

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
.DELETE_ON_ERROR:

# a value may hold blanks: recipes read it from the environment, as "$$NAME"
export ENV_FROM PYTHON TORCH VENV FORCE NAME DATA RESUME OUT COUNT KILLS SEED
# only what the lock says is imported
export PYTHONNOUSERSITE := 1
# what is imported is compiled once, not by each process anew
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
PY := "$$VENV/bin/python"

# what help shows; help-all shows each line below that has a ##
TOUR := init env train doctor tune bench profile monitor image up lab down test check fmt docs lock clean
SHOW = awk -v only=" $(1) " 'BEGIN {FS = ":.*\#\# "} /^\#\#@/ {group = substr($$0, 5)} \
  /^[a-z-]+:.*\#\# / && (only == "  " || index(only, " " $$1 " ")) { \
  if (group != "") {print group; group = ""} printf "  %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: help
help:  ## Show the targets to begin with
	@$(call SHOW,$(TOUR))
	@echo "All targets: make help-all    Settings: the first lines of the Makefile"

.PHONY: help-all
help-all:  ## Show every target
	@$(call SHOW,)

##@ Set up

.PHONY: init
init:  ## Name the project (NAME=my-project), pin its packages (ENV_FROM=)
	@command -v python3 >/dev/null || { echo "error: python3 is missing; expected 3.9 or newer" >&2; exit 2; }
	@python3 scripts/init.py

.PHONY: env
env:  ## Make or mend the environment (ENV_FROM=, PYTHON=, TORCH=current)
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
	@scripts/lock.sh $(ARGS)

.PHONY: lock-check
lock-check:  ## Check, offline, that the locks hold what was asked for
	@scripts/env.sh tools
	@.tools/bin/python scripts/lock_check.py

##@ Train

.PHONY: train
train: env  ## Train on the sample or DATA=DIR (GPUS=, RESUME=, ARGS=)
	@test -n "$$DATA$$RESUME" || $(PY) scripts/sample_data.py
	@$(PY) $(RANKS) -m train fit $(TRAIN_ARGS) $(ARGS)
RANKS = $(if $(GPUS),-m train.launch --standalone --nproc-per-node $(GPUS))
TRAIN_ARGS = $(if $(RESUME),--run.resume "$$RESUME",--config configs/$(if $(DATA),folder,sample).yaml) $(if $(DATA),--data.path "$$DATA")

##@ Why does the GPU wait?

.PHONY: doctor
doctor: env  ## Say what keeps the GPU waiting, and what mends it (DATA=)
	@test -n "$$DATA" || $(PY) scripts/sample_data.py
	@$(PY) -m train doctor $(RECIPE_ARGS) $(ARGS)
RECIPE_ARGS = --config configs/$(if $(DATA),folder,sample).yaml $(if $(DATA),--data.path "$$DATA")

.PHONY: tune
tune: env  ## Find the loader's settings for this machine and data (DATA=)
	@test -n "$$DATA" || $(PY) scripts/sample_data.py
	@$(PY) -m train tune $(RECIPE_ARGS) $(ARGS)

.PHONY: bench
bench: env  ## Compare our loader with a plain one on this machine (DATA=)
	@test -n "$$DATA" || $(PY) scripts/sample_data.py
	@$(PY) -m train bench $(RECIPE_ARGS) $(ARGS)

.PHONY: profile
profile: env  ## Draw where half a minute of training goes (DATA=, TRACE=1)
	@test -n "$$DATA" || $(PY) scripts/sample_data.py
	@$(PY) scripts/profile_run.py $(if $(TRACE),--trace) $(RECIPE_ARGS) $(ARGS)

.PHONY: monitor
monitor: env  ## Watch a run from another terminal (ARGS=its folder)
	@$(PY) -m train.monitor $(ARGS)

##@ The image

image up ssh: export ARGS := $(ARGS)
image: export BASE_IMAGE := $(BASE_IMAGE)
image: export TARGET := $(TARGET)

.PHONY: image
image:  ## Build the image (ENV_FROM=, TARGET=dev, BASE_IMAGE=)
	@scripts/image.sh build

.PHONY: up
up:  ## Start the container: JupyterLab, SSH with a key, the GPU
	@scripts/image.sh up

.PHONY: down
down:  ## Stop and remove the container; its volumes stay
	@scripts/image.sh down

.PHONY: lab
lab:  ## Print JupyterLab's address, or start one on 127.0.0.1
	@scripts/lab.sh $(ARGS)

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
image-test: env  ## Build the image and test it (minutes; needs Docker)
	@scripts/env.sh tools
	@$(PY) -m pytest -m docker tests/docker $(ARGS)

##@ Change something

.PHONY: test
test: env  ## Run the tests (PYTHON=3.12, TORCH=floor, ARGS="-k loader")
	@$(PY) -m pytest $(ARGS)

.PHONY: test-gpu
test-gpu: env  ## Run the tests that need a GPU; they skip without one
	@$(PY) -m pytest -m gpu tests/gpu $(ARGS)

.PHONY: test-interfaces
test-interfaces: env  ## Try the loader in Lightning, in Accelerate, with others' data
	@scripts/env.sh tools
	@INTERFACES=$$(scripts/interfaces.sh) && export INTERFACES && $(PY) -m pytest tests/interfaces $(ARGS)

.PHONY: doctor-test
doctor-test: env  ## Give the doctor twenty pipelines, count its right verdicts
	@$(PY) benchmarks/doctor_faults.py $(ARGS)

.PHONY: fuzz
fuzz: env  ## Read a million damaged inputs with our readers (COUNT=)
	@$(PY) tests/fuzz/run.py --count "$$COUNT" $(ARGS)

.PHONY: chaos
chaos: env  ## Train under 200 random kills, then compare (KILLS=, SEED=)
	@$(PY) tests/chaos/chaos.py --kills "$$KILLS" --seed "$$SEED" $(ARGS)

.PHONY: bench-peers
bench-peers: env  ## Race the loader against the others, 20 minutes (DATA=)
	@scripts/env.sh tools
	@$(PY) benchmarks/loaders.py $(if $(DATA),--data "$$DATA") $(ARGS)

.PHONY: check
check: env  ## Look for mistakes without running anything: ruff, mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@if command -v shellcheck >/dev/null; then shellcheck -x scripts/*.sh scripts/*/*.sh docker/*.sh benchmarks/*.sh .ci/run; else echo "shellcheck is not installed: *.sh not checked"; fi

.PHONY: fmt
fmt: env  ## Format the code and mend what can be mended
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

.PHONY: docs
docs:  ## Build the documentation's site into build/site (ARGS=)
	@scripts/env.sh docs
	@$(MKDOCS) build --strict --quiet $(ARGS)
	@.docs-env/bin/python scripts/docs_check.py build/site
# what only tells of MkDocs' future would stand between the warnings
MKDOCS = NO_MKDOCS_2_WARNING=1 .docs-env/bin/python -m mkdocs

.PHONY: docs-serve
docs-serve:  ## Show the site on 127.0.0.1, built again at each change (ARGS=)
	@scripts/env.sh docs
	@$(MKDOCS) serve --strict $(ARGS)

.PHONY: clean
clean:  ## Remove environment, tools, caches; never runs/ or data/
	@scripts/env.sh clean
