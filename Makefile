# `make golden` and `make test` set up a fresh machine. PYTHON chooses the interpreter.
PYTHON ?= python3
VENV   ?= .venv
OUT    ?= out
MODEL  ?= smollm2-135m
TESTED := smollm2-135m all-minilm-l6-v2 film-reviews
BIN    := $(VENV)/bin
LIMIT  := 900
FUZZ   ?= 150
# LATEST=1: the newest packages instead of those of tools/locked.txt
export LATEST
# cache of compiled kernels for all processes, and the next run
export PYTHONDONTWRITEBYTECODE =
export PYTHONPYCACHEPREFIX = $(CURDIR)/$(OUT)/pycache
export REFEMU_CACHE ?= $(CURDIR)/$(OUT)/cache
HF     := $(foreach name,transformers families gguf_models gguf_tokenizers harness,tests/conformance/test_$(name).py)
TORCH  := tests/testing/test_torch.py

# `tiny` has heads of width 16, so its pages need other groups, and a short prompt needs a short window
SCHEMES := --scheme olive-4 --scheme kllm-a4 --scheme harmonia-kv4 --scheme \
  leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1

.PHONY: help golden test test-some test-long test-slow test-committed test-skipped programs nightly mutation mutation-reach conformance conformance-hf conformance-numbers test-pythons arm64 lint bench docs kernels rtl formal plugins fuzz lock release vectors grades variants clean
help:
	@echo "make golden   install refemu, fetch the model, generate golden vectors under $(OUT)/golden, check them"
	@echo "make test     install refemu and run its tests, five minutes the first time"
	@echo "make test-long   tests of more than a second each   (make test-slow: exhaustive sweeps, minutes each)"
	@echo "make test-committed   what only a change of a unit, a case or vectors/ can change"
	@echo "make test-skipped   what make test skipped, with the programs that it needs   (make programs: install these)"
	@echo "make nightly  every stage of CI, all sweeps, all Pythons, all mutants   (.ci/run: those that a change starts)"
	@echo "make mutation   planted changes of refemu, and whether a test still fails with each"
	@echo "make conformance   against outputs of other people's programs, where available   (make conformance-hf: transformers alone; make conformance-numbers: write docs/compared-with-transformers.md)"
	@echo "make arm64    equal digests on aarch64, emulated   (ARM64=--tests: and tests)"
	@echo "make test-pythons   equal digests and some tests with every Python 3.11 to 3.14 that is here or can be unpacked"
	@echo "make lint     layout by ruff, rules by ruff and tools/rules, types by mypy and pyright"
	@echo "make docs     the documentation as pages: $(OUT)/docs/html/index.html"
	@echo "make bench    speed compared with what you would use instead, as ratios (BENCH=\"PERF-1 PERF-14\": some rows)"
	@echo "make kernels  C, CUDA and Triton kernels against golden sets, and bugs that the sets catch"
	@echo "make rtl      Verilog designs against golden sets in Icarus, Verilator and cocotb, and bugs that the sets catch"
	@echo "make formal   proofs that example designs equal their units, and planted bugs that must be refuted"
	@echo "make plugins  a package of units outside refemu's tree with an installed refemu"
	@echo "make fuzz     coverage-guided search for inputs that a reader does not survive (FUZZ=3600: seconds)"
	@echo "make lock     write tools/locked.txt: newest packages with hashes, which all of these install (LATEST=1: no lock)"
	@echo "make release  build and check everything of a release, and say what a publication still needs"
	@echo "make grades   grade the committed sets: vectors/GRADES.md"
	@echo "make variants  variants of decisions, and the rows that detect them: docs/variants-*.md"
	@echo "make vectors  regenerate the committed sets under vectors/"

golden:
	@$(PYTHON) tools/bootstrap.py $(VENV) models
	@$(BIN)/refemu models fetch $(MODEL)
	@$(BIN)/refemu generate -o $(OUT)/golden --model $(MODEL) --scheme olive-4 --hex --bin
	@$(BIN)/refemu check $(OUT)/golden
	@echo "next: docs/set-format.md says how to read a set; $(BIN)/refemu step ovp_decoder shows a unit event by event; make test"

TEST = $(BIN)/python -m pytest -n 2 --dist worksteal --max-worker-restart 4 --timeout $(LIMIT) --ignore tests/conformance

# needs Python, git and a C compiler; tests that need more are skipped, with reasons at the end
test:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@for name in $(TESTED); do $(BIN)/refemu models fetch $$name || test -z "$$CI" || exit 2; done
	@echo "compiling every kernel (a minute the first time)"
	@$(BIN)/python -m benchmarks.every_kernel --processes 2 > /dev/null
	@$(TEST) -m "not slow and not long and not committed" --times=$(OUT)/times/test.json $(PYTEST)

# tests of `make test` in the folders of PYTEST, with kernels compiled as they are needed
test-some:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(TEST) -m "not slow and not long and not committed" $(PYTEST)

test-long:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(TEST) -m "long and not slow and not committed" --times=$(OUT)/times/test-long.json $(PYTEST)

test-committed:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(TEST) -m "committed and not slow" --times=$(OUT)/times/test-committed.json $(PYTEST)

test-slow: LIMIT = 3600
test-slow:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(TEST) -m slow --times=$(OUT)/times/test-slow.json $(PYTEST)

# the tests that `make test` skipped, with the programs that they need
test-skipped: programs
	@$(TEST) -m "not slow and not long and not committed" --rerun-skipped=$(OUT)/times/test.json

# programs for everything except `make test` and `make golden`: by apt-get if allowed, else prints how to get them
programs:
	@$(PYTHON) tools/programs.py iverilog yosys ccache chromium chromedriver
	@for extra in test rtl formal browser conformance docs dev; do $(PYTHON) tools/bootstrap.py $(VENV) $$extra || exit 2; done

# proofs of example designs, planted bugs that must be refuted, self-checks of lifted units
formal:
	@$(PYTHON) tools/bootstrap.py $(VENV) formal
	@$(BIN)/python -m tools.formal

# planted changes of refemu from tools/mutation.json, and the tests that once detected them
# MUTATION=--changed: only where the file or its test has changed
mutation:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/python -m tools.mutation --again tools/mutation.json --jobs 2 $(MUTATION)

# records which test enters which function, for new mutants; Python 3.12 or newer
mutation-reach:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(TEST) -m "not slow" -p tools.reach --reach=$(OUT)/mutation/reach --times=$(OUT)/mutation/times.json

# all stages of CI, and exhaustive sweeps, all Pythons and aarch64 with tests, all mutants
nightly:
	@$(PYTHON) tools/stages.py --all --minutes 600

# REFEMU_ORACLE is the folder of other programs' outputs; without it the tests are skipped with a message, and CI fails
conformance:
	@$(PYTHON) tools/bootstrap.py $(VENV) conformance
	@$(BIN)/python -m pytest -n 2 --dist worksteal --timeout $(LIMIT) tests/conformance $(HF:%=--ignore %)
	@$(MAKE) --no-print-directory conformance-hf

# torch and transformers have a separate environment of 1.6 GB
conformance-hf:
	@$(PYTHON) tools/bootstrap.py $(VENV)-hf conformance-hf
	@$(VENV)-hf/bin/python -m pytest -n 2 --timeout $(LIMIT) $(HF) $(TORCH)

# the table of docs/compared-with-transformers.md
conformance-numbers:
	@$(PYTHON) tools/bootstrap.py $(VENV)-hf conformance-hf
	@$(VENV)-hf/bin/python -m tests.conformance.family_numbers

# PYTHONS=--digests skips the tests
test-pythons:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/python tools/pythons.py $(OUT)/environments $(PYTHONS)

arm64:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/python tools/arm64.py $(OUT)/environments $(ARM64)

lint:
	@$(PYTHON) tools/bootstrap.py $(VENV) dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tools.rules
	$(BIN)/python -m tools.stubs
	$(BIN)/mypy
	$(BIN)/python tools/known_types.py
	$(BIN)/python -m tools.prose

docs:
	@$(PYTHON) tools/bootstrap.py $(VENV) docs
	@$(BIN)/python -m tools.site $(OUT)/docs

bench:
	@$(PYTHON) tools/bootstrap.py $(VENV) bench
	@$(BIN)/refemu models fetch $(MODEL) || true
	@$(BIN)/python -m benchmarks $(BENCH) --history $(OUT)/bench/history.jsonl
	@echo "how ratios moved: $(BIN)/python -m benchmarks history --plot $(OUT)/bench/history.svg"

kernels:
	@$(PYTHON) tools/bootstrap.py $(VENV) models
	@$(BIN)/python -m examples.kernels.run --out $(OUT)/kernels

# builds of Verilator compile the same parts of its library: ccache, if installed, compiles them once
rtl: export OBJCACHE = $(shell command -v ccache 2>/dev/null)
rtl: export CCACHE_DIR = $(CURDIR)/$(OUT)/ccache
rtl:
	@$(PYTHON) tools/programs.py iverilog yosys
	@$(PYTHON) tools/bootstrap.py $(VENV) rtl
	@test -n '$(RTL)' || $(BIN)/python -m examples.rtl.synthesis
	@test -n '$(RTL)' || $(BIN)/python -m examples.rtl.foreign.run --out $(OUT)/rtl/foreign
	@test -n '$(RTL)' || $(BIN)/python -m examples.rtl.constrained --out $(OUT)/rtl/constrained
	@$(BIN)/python -m examples.rtl.run --out $(OUT)/rtl $(RTL)

# examples/refemu-mx with an installed refemu, in a fresh environment
plugins:
	@$(PYTHON) tools/programs.py iverilog || test -z "$$CI"
	@$(PYTHON) tools/plugins.py $(OUT)/plugins

# two processes: five minutes of search in CI, FUZZ=3600 in the nightly run
fuzz:
	@$(PYTHON) tools/bootstrap.py $(VENV) fuzz
	@$(BIN)/python -m tests.fuzz.guided $(OUT)/fuzz --seconds $(FUZZ) $(GUIDED)

lock:
	@$(PYTHON) tools/bootstrap.py $(VENV) dev
	@$(BIN)/python tools/lock.py $(BIN)/uv

release:
	@$(PYTHON) tools/bootstrap.py $(VENV) release
	@$(BIN)/python -m tools.release $(OUT)/release

# GRADES=--check compares with the page instead
grades:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/python -m tools.grades $(GRADES)

variants:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/python -m tools.variants

vectors:
	@$(PYTHON) tools/bootstrap.py $(VENV) test
	@$(BIN)/refemu generate -o vectors --kinds paper,edge,random,model $(SCHEMES)
	@$(BIN)/python -m tools.deflate vectors

clean:
	rm -rf $(OUT) build dist *.egg-info
