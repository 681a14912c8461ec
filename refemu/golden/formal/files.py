"""The files of `refemu export formal`."""

from pathlib import Path
from string import Template

from refemu.golden.formal import c, properties, smt, systemverilog
from refemu.golden.formal.reference import Reference

TEXTS = Path(__file__).with_name("texts")  #: `$unit` and `$set` mark names
RUNS = {
    "check.sby": "{unit}.sby",
    "check.ys": "{unit}.ys",
    "jaspergold.tcl": "{unit}_jaspergold.tcl",
    "vcformal.tcl": "{unit}_vcformal.tcl",
}


def files(reference: Reference) -> dict[str, bytes]:
    """Names and contents of all files for a reference."""
    unit, clocked = reference.unit.name, bool(reference.registers)
    parts = {
        "unit": unit,
        "set": reference.set,
        "induct": "-seq 1 -tempinduct " if clocked else "",
        "depth": "20" if clocked else "1",
        "mode": "bmc" if clocked else "prove",
        "jasper": "clock clk\nreset rst" if clocked else "clock -none\nreset -none",
        "vcformal": "create_clock clk -period 10\ncreate_reset rst -sense high" if clocked else "",
    }
    answer = {
        f"{unit}_ref.sv": systemverilog.text(reference),
        f"{unit}_props.sv": properties.text(reference),
        f"{unit}_ref.c": c.text(reference),
        f"{unit}_ref.smt2": smt.text(reference),
    }
    for source, name in RUNS.items():
        answer[name.format(unit=unit)] = Template((TEXTS / source).read_text(encoding="ascii")).substitute(parts)
    return {name: content.encode("ascii") for name, content in answer.items()}
