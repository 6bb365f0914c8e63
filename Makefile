# Five commands do all: `make demo`, `make test`, `make test-faults`, `make test-cluster` and `make test-programs`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo demo-train test test-faults test-cluster test-programs test-gpu reliability reliability-page adios2-mpi hdf5-mpi unit check lint types imports mutants wheel bench pictures bless docs docs-site clean help

help:            ## what there is to make
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 16

# One stamp for each set of packages, remade when the pins or the package's own metadata change.
$(VENV)/laptop: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing from PyPI into $(VENV): about 300 MB, half a minute or more"
	$(PIP) install --quiet --constraint constraints.txt --editable '.[laptop]'
	@touch $@

# $(call need,PROGRAM,PACKAGE): root gets a program that the tests use; others are told what to install.
need = command -v $(1) >/dev/null || { echo "installing $(2)"; apt-get update -qq && apt-get install -qq -y --no-install-recommends $(2); } \
    || { echo "make test needs $(1): install it (Debian: apt-get install $(2))"; exit 1; }

$(VENV)/dev: pyproject.toml constraints.txt | $(VENV)/laptop
	@# example 03 is built, pages are opened in a browser, and the commands of a page for CI fetch a file
	@$(call need,g++,g++)
	@$(call need,chromium,chromium)
	@$(call need,curl,curl)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/laptop  ## install from PyPI, then run example 01 through SST
	@echo "example 01: LAMMPS shocks copper, and a scattering code draws its diffraction while it runs"
	@echo "LAMMPS opens its stream after some seconds, then 41 steps follow; the whole takes half a minute to a few minutes"
	$(BIN)/wf run examples/01-shock-diffraction/pipeline.yaml
	@echo "to use wf: . $(BIN)/activate"

# PyTorch is large: an environment of its own, with the tests of what needs it.
$(VENV)-train/ready: pyproject.toml constraints.txt
	test -x $(VENV)-train/bin/python || $(PYTHON) -m venv $(VENV)-train
	@echo "installing PyTorch into $(VENV)-train: some GB where its wheel brings CUDA"
	$(VENV)-train/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt --editable '.[laptop,xarray,train]' dask pytest pytest-rerunfailures pytest-timeout pytest-xdist
	@touch $@

demo-train: $(VENV)-train/ready  ## install PyTorch into .venv-train, run example 05 with it, and the tests that need it
	$(VENV)-train/bin/wf run examples/05-train-from-stream/pipeline.yaml --profile torch
	$(VENV)-train/bin/python -m pytest tests/optional

# What measures times or kills by the clock has the machine for itself; all else runs in two processes, a file at a time.
MEASURED := tests/docs/test_docs_gate.py tests/integration/test_calibrate.py tests/integration/test_campaign.py
# Of the runs that are hurt those that wait for conditions share the machine.
FAULTS := restart restart_over_sst random_kills power_cuts other_ends skipped_steps programs_in_cpp saved_states plot_goes_on lammps_goes_on checkpoint_signals attach_cycles windows shared_memory_kills
SHARED := $(FAULTS:%=tests/faults/test_%.py)
HURT   := $(SHARED) $(patsubst %,tests/integration/test_%.py,resume chains ensembles ensemble_failures)
ALONE  := $(filter-out $(SHARED),$(sort $(wildcard tests/faults/test_*.py)))
PARTS  = WF_MPI_PYTHON=$(CURDIR)/$(VENV)-mpi/bin/python WF_CRATE_PYTHON=$(CURDIR)/$(VENV)-crate/bin/python

test: $(VENV)/dev $(VENV)-mpi/ready $(VENV)-crate/ready lint types imports  ## the checks and tests, with PyPI's ADIOS2 and with one that has MPI
	$(PARTS) $(BIN)/python -m pytest --turns --numprocesses 2 --dist loadfile $(patsubst %,--ignore=%,$(MEASURED) $(HURT) $(ALONE))
	$(PARTS) $(BIN)/python -m pytest $(MEASURED)

test-faults: $(VENV)/dev $(VENV)-mpi/ready  ## runs that are killed, stopped, started again and resumed
	$(PARTS) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(HURT)
	$(PARTS) $(BIN)/python -m pytest $(ALONE)

# Root installs the packages; what is missing otherwise is the reason that pytest prints for each skipped test.
test-cluster: $(VENV)/dev $(VENV)-mpi/ready  ## runs on a Slurm of four isolated nodes, which the tests start and remove; needs root
	$(BIN)/python -m tests.support.slurm_cluster install
	WF_MPI_PYTHON=$(CURDIR)/$(VENV)-mpi/bin/python $(BIN)/python -m pytest --turns tests/cluster

test-programs: $(VENV)/dev $(VENV)-mpi/ready  ## programs in the shape of those of others, unchanged, under wf
	$(PARTS) $(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/programs

# Not a part of CI: its machine has no GPU. GPU_PYTHON has wf, pytest, PyTorch, or CuPy, or both.
GPU_PYTHON ?= python3
test-gpu:  ## copies to and from a GPU, of a machine that has one: GPU_PYTHON=…
	$(GPU_PYTHON) -m pytest tests/gpu

TABLES ?= tests tests/cluster tests/programs
reliability: $(VENV)/dev $(VENV)-mpi/ready  ## the long tables whole, of which the other targets run a sample; some alone: TABLES=tests/specs
	$(BIN)/python -m tests.support.slurm_cluster install
	$(PARTS) $(BIN)/python -m pytest -m reliability --timeout 3600 $(TABLES)

# Of the tables of runs that go on: docs/reliability.md.
reliability-page: $(VENV)/dev $(VENV)-mpi/ready  ## run all runs that are hurt and go on, and write docs/reliability.md
	rm -f build/reliability.jsonl
	WF_RELIABILITY=build/reliability.jsonl $(PARTS) $(BIN)/python -m pytest -q -m reliability --timeout 3600 --numprocesses 2 $(SHARED)
	$(BIN)/python tools/reliability_page.py build/reliability.jsonl docs/reliability.md

# An environment like $(VENV), but with an ADIOS2 built with MPI. The wheel is kept in a cache outside of the clone.
$(VENV)-mpi/ready: pyproject.toml constraints.txt tools/adios2_mpi.py $(wildcard tools/patches/*.patch)
	@echo "$(VENV)-mpi: packages from PyPI, in about a minute; then ADIOS2 with MPI, which is built once in 5 to 10 minutes and kept in a cache"
	test -x $(VENV)-mpi/bin/python || $(PYTHON) -m venv $(VENV)-mpi
	$(VENV)-mpi/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt --editable '.[dev]'
	$(VENV)-mpi/bin/python tools/adios2_mpi.py --install
	@touch $@

# The validator of RO-Crates, apart from us: it needs an older rich. Pure wheels, about 40 MB.
$(VENV)-crate/ready: tests/support/validate_crate.txt
	test -x $(VENV)-crate/bin/python || $(PYTHON) -m venv $(VENV)-crate
	$(VENV)-crate/bin/python -m pip --disable-pip-version-check install --quiet --requirement tests/support/validate_crate.txt
	@touch $@

adios2-mpi: $(VENV)-mpi/ready  ## build ADIOS2 with MPI once (about 8 minutes), install it into .venv-mpi
	@echo "ready: run $(VENV)-mpi/bin/wf, or type . $(VENV)-mpi/bin/activate"

hdf5-mpi: $(VENV)-mpi/ready  ## h5py with MPI against Debian's HDF5 (about two minutes once), into .venv-mpi, for examples/campaigns/h5part
	$(VENV)-mpi/bin/python tools/h5py_mpi.py --install

unit: $(VENV)/dev  ## the fast tests only; those of a room: ROOM=plan
	$(BIN)/python -m pytest $(if $(ROOM),$(or $(wildcard tests/unit/test_$(ROOM).py tests/unit/test_$(ROOM)_*.py),$(error there are no tests of a room $(ROOM))),tests/unit tests/specs tests/golden)

check: lint types imports  ## what a change needs while it is made: the checks, and the unit tests that import what it touches
	tests="$$($(BIN)/python tools/changed_tests.py)"; [ -z "$$tests" ] || $(BIN)/python -m pytest -q $$tests

lint: $(VENV)/dev  ## ruff, and no file in git that does not belong there
	$(BIN)/python tools/tracked_files.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev  ## mypy --strict, tests too
	$(BIN)/mypy

imports: $(VENV)/dev  ## imports go down the house only
	$(BIN)/lint-imports

wheel: $(VENV)/laptop  ## a wheel of wf for other machines, dist/wf_hpc-VERSION-py3-none-any.whl
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

mutants: $(VENV)/dev  ## change the code at one place at a time and see that a test fails (up to an hour); some modules: MUTANTS='nodes units'
	$(BIN)/python tools/mutants.py $(MUTANTS)

# What we compare ourselves with, apart from us: its dependencies are not ours.
$(VENV)-peers/ready: Makefile
	$(PYTHON) -m venv $(VENV)-peers
	$(VENV)-peers/bin/python -m pip --disable-pip-version-check install --quiet parsl==2026.10.26 snakemake==9.27.1 hyperqueue==0.27.0 muscle3==0.11.0
	@touch $@

bench: $(VENV)/dev $(VENV)-mpi/ready $(VENV)-peers/ready  ## measure, and write docs/benchmarks.md and its pictures; some alone: BENCH='transports lowfive', short: BENCH=--quick
	WF_MPI_PYTHON=$(CURDIR)/$(VENV)-mpi/bin/python WF_PEERS_PYTHON=$(CURDIR)/$(VENV)-peers/bin/python $(BIN)/python tests/bench/run.py --write docs/benchmarks.md $(BENCH)
	$(BIN)/python tests/bench/pictures.py

pictures: $(VENV)/dev  ## draw docs/pictures from what `make bench` measured last
	$(BIN)/python tests/bench/pictures.py

bless: $(VENV)/dev  ## rewrite the golden files after a change that is meant
	$(BIN)/python -m pytest $$(grep -rl 'bless: bool' tests --include='test_*.py') --bless

docs: $(VENV)/dev  ## rewrite the generated reference pages
	$(BIN)/python tools/reference.py

docs-site: $(VENV)/dev  ## the documentation as a site: build/site/index.html; warnings are errors (Python 3.11 or newer)
	@# Sphinx is among the dependencies from Python 3.11 on
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make docs-site needs Python 3.11 or newer"; exit 1; }
	$(BIN)/python -m sphinx -b html -W --keep-going -E -q -j auto -c docs -d build/site-pages . build/site
	@echo "the site: $(CURDIR)/build/site/index.html"

clean:           ## remove what make made
	rm -rf $(VENV) $(VENV)-mpi $(VENV)-crate $(VENV)-peers $(VENV)-train dist build .mypy_cache .ruff_cache .pytest_cache
