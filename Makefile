# `make golden` and `make test` do all the set-up on a fresh machine. PYTHON chooses the interpreter.
PYTHON ?= python3
VENV   ?= .venv
OUT    ?= out
MODEL  ?= smollm2-135m
TESTED := smollm2-135m all-minilm-l6-v2 film-reviews
BIN    := $(VENV)/bin
LIMIT  := 900
HF     := $(foreach name,transformers families gguf_models gguf_tokenizers,tests/conformance/test_$(name).py)

# heads of `tiny` are 16 wide, so its pages need other groups, and a short prompt needs a short window
SCHEMES := --scheme olive-4 --scheme kllm-a4 --scheme harmonia-kv4 --scheme \
  leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1

.PHONY: help golden test test-long test-slow conformance conformance-hf conformance-numbers test-pythons arm64 lint bench docs kernels rtl plugins vectors grades alternatives clean
help:
	@echo "make golden   install refemu, fetch the model, generate golden vectors under $(OUT)/golden, check them"
	@echo "make test     install refemu and run its tests   (make test-long: those that take seconds each; make test-slow: the exhaustive sweeps too)"
	@echo "make conformance   against outputs of other people's programs, where these are   (make conformance-hf: against transformers alone; make conformance-numbers: write the table of docs/models.md)"
	@echo "make arm64    equal digests on aarch64, emulated   (make test-slow: this and the next, too)"
	@echo "make test-pythons   equal digests and some tests with every Python 3.11 to 3.14 that is here or can be unpacked"
	@echo "make lint     layout and rules by ruff, types by mypy and pyright"
	@echo "make docs     the documentation as pages: $(OUT)/docs/html/index.html"
	@echo "make bench    speed beside what you would use instead, as ratios (BENCH=\"PERF-1 PERF-14\": some rows)"
	@echo "make kernels  C, CUDA and Triton kernels against golden sets, and bugs that the sets catch"
	@echo "make rtl      Verilog designs against golden sets in Icarus, Verilator and cocotb, and bugs that the sets catch"
	@echo "make plugins  a package of units outside refemu's tree beside an installed refemu"
	@echo "make grades   grade the committed sets: vectors/GRADES.md"
	@echo "make alternatives   other answers to decisions, and the rows that tell them: docs/alternatives.md"
	@echo "make vectors  regenerate the committed sets under vectors/"

golden:
	@$(PYTHON) tools/bootstrap.py $(VENV) models
	@$(BIN)/refemu models fetch $(MODEL)
	@$(BIN)/refemu generate -o $(OUT)/golden --model $(MODEL) --scheme olive-4 --hex --bin
	@$(BIN)/refemu check $(OUT)/golden
	@echo "next: docs/vectors.md says how to read a set; $(BIN)/refemu step ovp_decoder shows a unit event by event; make test"

# hundreds of processes read the compiled sources that the first of them wrote
test: MARKS = $(if $(PYTEST),,-m "not slow and not long")
test-long: MARKS = -m "long and not slow"
test-slow: MARKS = -m "slow or not slow"
test-slow: LIMIT = 3600
test-slow: SLOW = yes
test test-long test-slow:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@test -z "$$CI" || $(PYTHON) tools/programs.py iverilog yosys || true
	@test -z "$$CI" || $(PYTHON) tools/bootstrap.py $(VENV) rtl || true
	@test -z "$$CI" || { $(PYTHON) tools/chromium.py && $(PYTHON) tools/bootstrap.py $(VENV) browser; } || true
	@for name in $(TESTED); do $(BIN)/refemu models fetch $$name || test -z "$$CI" || exit 2; done
	@PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(OUT)/pycache REFEMU_CACHE=$${REFEMU_CACHE:-$(CURDIR)/$(OUT)/cache} \
	  $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --timeout $(LIMIT) $(MARKS) $(if $(PYTEST)$(SLOW),$(PYTEST),--ignore tests/conformance)
	@test -z '$(SLOW)' || $(MAKE) --no-print-directory test-pythons arm64

# the folder of their outputs is REFEMU_ORACLE; a machine without it skips the tests and says so, and CI fails
conformance:
	@$(PYTHON) tools/bootstrap.py $(VENV) conformance
	@$(MAKE) --no-print-directory test PYTEST="tests/conformance $(HF:%=--ignore %)"
	@$(MAKE) --no-print-directory conformance-hf

# torch and transformers have an environment of their own, 1.3 GB
conformance-hf:
	@$(PYTHON) tools/bootstrap.py $(VENV)-hf conformance-hf
	@PYTHONPYCACHEPREFIX=$(CURDIR)/$(OUT)/pycache REFEMU_CACHE=$${REFEMU_CACHE:-$(CURDIR)/$(OUT)/cache} \
	  $(VENV)-hf/bin/python -m pytest -n 2 --max-worker-restart 0 --timeout $(LIMIT) $(HF)

# the table of docs/models.md
conformance-numbers:
	@$(PYTHON) tools/bootstrap.py $(VENV)-hf conformance-hf
	@REFEMU_CACHE=$${REFEMU_CACHE:-$(CURDIR)/$(OUT)/cache} $(VENV)-hf/bin/python -m tests.conformance.family_numbers

# PYTHONS=--digests leaves out the tests
test-pythons:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/python tools/pythons.py $(OUT)/environments $(PYTHONS)

arm64:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/python tools/arm64.py $(OUT)/environments

lint:
	@$(PYTHON) tools/bootstrap.py $(VENV) dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/known_types.py

docs:
	@$(PYTHON) tools/bootstrap.py $(VENV) docs
	@REFEMU_CACHE=$${REFEMU_CACHE:-$(CURDIR)/$(OUT)/cache} $(BIN)/python -m tools.site $(OUT)/docs

bench:
	@$(PYTHON) tools/bootstrap.py $(VENV) bench
	@$(BIN)/refemu models fetch $(MODEL) || true
	@$(BIN)/python -m benchmarks $(BENCH) --history $(OUT)/bench/history.jsonl
	@echo "how ratios moved: $(BIN)/python -m benchmarks history --plot $(OUT)/bench/history.svg"

kernels:
	@$(PYTHON) tools/bootstrap.py $(VENV) models
	@$(BIN)/python -m examples.kernels.run --out $(OUT)/kernels

# every build of Verilator compiles the same parts of its library: with ccache, where it is, once
rtl: export OBJCACHE = $(shell command -v ccache 2>/dev/null)
rtl: export CCACHE_DIR = $(CURDIR)/$(OUT)/ccache
rtl:
	@$(PYTHON) tools/programs.py iverilog yosys
	@test -z "$$CI" || $(PYTHON) tools/programs.py ccache || true
	@$(PYTHON) tools/bootstrap.py $(VENV) rtl
	@test -n '$(RTL)' || $(BIN)/python -m examples.rtl.synthesis
	@test -n '$(RTL)' || $(BIN)/python -m examples.rtl.foreign.run --out $(OUT)/rtl/foreign
	@test -n '$(RTL)' || $(BIN)/python -m examples.rtl.constrained --out $(OUT)/rtl/constrained
	@$(BIN)/python -m examples.rtl.run --out $(OUT)/rtl $(RTL)

# examples/refemu-mx beside an installed refemu, in a fresh environment
plugins:
	@$(PYTHON) tools/programs.py iverilog || test -z "$$CI"
	@$(PYTHON) tools/plugins.py $(OUT)/plugins

# GRADES=--check compares the page instead
grades:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@REFEMU_CACHE=$${REFEMU_CACHE:-$(CURDIR)/$(OUT)/cache} $(BIN)/python -m tools.grades $(GRADES)

alternatives:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@REFEMU_CACHE=$${REFEMU_CACHE:-$(CURDIR)/$(OUT)/cache} $(BIN)/python -m tools.alternatives

vectors:
	@$(PYTHON) tools/bootstrap.py $(VENV) models
	@$(BIN)/refemu generate -o vectors --kinds paper,edge,random,model $(SCHEMES)
	@$(BIN)/python -m tools.deflate vectors

clean:
	rm -rf $(OUT) build dist *.egg-info
