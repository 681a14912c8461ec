"""A SystemVerilog package for a unit's testbenches: packed structs, texts, transactions, a scoreboard, coverage.

It follows from the unit's ports and one golden set, and does not need UVM. A testbench runs the set through the
classes; `rows.mem` has kind, decision and flags of each row.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.files import hexfile, sets
from refemu.golden.rtl import bench
from refemu.units import value_text
from refemu.units.ports import Port, Ports
from refemu.units.unit import AnyUnit

#: (bits of the fraction, bits of the exponent, digits) of float patterns
FLOATS = {"f16": (10, 5, 5), "f32": (23, 8, 7)}
BIN_BITS = 6  #: a lane of at most this many bits has a bin for each value
BINNED_LANES = 8  #: lanes of a port with bins
CASES_MEM = "rows.mem"


class Row(NamedTuple):
    """Kind, decision and flags of the rows of a set, and the names for the numbers."""

    flags: np.ndarray  #: uint8 (rows,)
    kind: np.ndarray  #: int64 (rows,): place in `kinds`
    decision: np.ndarray  #: int64 (rows,): place in `decisions`; their number if a row follows none
    kinds: tuple[str, ...]
    decisions: tuple[str, ...]


def files(golden: sets.Golden) -> dict[str, bytes]:
    """The package, the testbench, `<unit>_rows.mem` and the Makefile `sv.mk` for a golden set.

    Parameters
    ----------
    golden : Golden
        A set in any configuration.

    Returns
    -------
    dict of str to bytes
        File names and contents.
    """
    unit = units.find(golden.manifest["unit"])
    ports, rows = unit.ports(unit.config(golden.config)), row_kinds(golden)
    names = {
        "unit": unit.name,
        "set": golden.name,
        "paper": bench.plain_text(unit.paper),
        "digest": golden.manifest["self_sha256"],
    }
    package = _text("unit_pkg.sv").substitute(names, **_package(unit, golden, ports, rows))
    return {
        f"refemu_{unit.name}_pkg.sv": package.encode("ascii"),
        f"tb_{unit.name}_sv.sv": _text("tb_unit_sv.sv")
        .substitute(names, **_bench(unit, golden, ports))
        .encode("ascii"),
        f"{unit.name}_{CASES_MEM}": _rows_mem(golden, rows),
        "sv.mk": _text("sv.mk").substitute(names).encode("ascii"),
    }


def counts(golden: sets.Golden) -> dict[str, Any]:
    """The counts of the package's class `coverage` for a set, without toggles, which `refemu grade` counts."""
    rows, flags = row_kinds(golden), golden.manifest["flags"]
    return {
        "rows": golden.rows,
        "flags": {name: int(np.count_nonzero(rows.flags >> flag["bit"] & 1)) for name, flag in sorted(flags.items())},
        "kinds": _counted(rows.kinds, rows.kind),
        "decisions": _counted(rows.decisions, rows.decision),
    }


def _counted(names: Sequence[str], numbers: np.ndarray) -> dict[str, int]:
    return {name: int(np.count_nonzero(numbers == at)) for at, name in enumerate(names)}


def row_kinds(golden: sets.Golden) -> Row:
    """Flags, kind of case and decision of every row of a set."""
    cases = golden.manifest["cases"]
    kinds = tuple(sorted({case["kind"] for case in cases}))
    decisions = tuple(sorted({case["decision"] for case in cases if case.get("decision")}))
    if len(decisions) > 255:
        raise Refused(f"{golden.name}: must have at most 255 decisions for {CASES_MEM}, got {len(decisions)}")
    kind = np.zeros(golden.rows, np.int64)
    decision = np.full(golden.rows, len(decisions), np.int64)
    for case in cases:
        rows = slice(case["first"], case["first"] + case["cases"] * case["rows"])
        kind[rows] = kinds.index(case["kind"])
        if case.get("decision"):
            decision[rows] = decisions.index(case["decision"])
    return Row(golden.arrays["flags"].astype(np.uint8), kind, decision, kinds, decisions)


def _rows_mem(golden: sets.Golden, rows: Row) -> bytes:
    """24 bits a row: decision, kind, flags; then a sentinel, as in the testbench's other files."""
    words = rows.decision << 16 | rows.kind << 8 | rows.flags.astype(np.int64)
    head = f"// {golden.rows} words of decision, kind and flags of {golden.name}, and one sentinel\n"
    return "".join([head, *(f"{word:06x}\n" for word in words.tolist()), "ffffff\n"]).encode("ascii")


def _text(name: str) -> Template:
    return Template((Path(__file__).with_name("texts") / name).read_text(encoding="ascii"))


def _package(unit: AnyUnit, golden: sets.Golden, ports: Ports, rows: Row) -> dict[str, object]:
    event = unit.timing == "event"
    entries = [entry for entry in golden.manifest["arrays"] if entry["role"] == "stimulus"]
    flags = sorted((flag["bit"], name) for name, flag in golden.manifest["flags"].items())
    return {
        "rows": golden.rows,
        "stimulus_bits": hexfile.width(hexfile.layout(entries, event)),
        "first_bit": "; its highest bit marks the first row of a case" if event else "",
        "flag_count": len(flags),
        "kind_count": len(rows.kinds),
        "decision_count": len(rows.decisions),
        "structs": "\n\n".join(_structs(ports)),
        "texts": "\n\n".join(_texts(ports)),
        "differences": "\n".join(_differences(ports.outputs)),
        "after_first": " && !item.first" if event else "",
        "toggles": "\n".join(_toggles(ports.outputs)),
        "flags": _members([(name, f"of_flag[{bit}]") for bit, name in sorted(flags, key=lambda flag: flag[1])]),
        "kinds": _members([(name, f"of_kind[{at}]") for at, name in enumerate(rows.kinds)]),
        "decisions": _members([(name, f"of_decision[{at}]") for at, name in enumerate(rows.decisions)]),
        "coverpoints": "\n".join(_coverpoints(ports, flags)),
    }


def _structs(ports: Ports) -> Iterator[str]:
    """Packed structs; the first port is the last field, which has the lowest bits."""
    for name, group in (("inputs_t", ports.inputs), ("outputs_t", ports.outputs), ("registers_t", ports.state)):
        if group:
            fields = "\n".join(f"    {_declared(port)};  // {bench.about(port)}" for port in reversed(group))
            yield f"  typedef struct packed {{\n{fields}\n  }} {name};"


def _declared(port: Port) -> str:
    lanes = f"[{port.count - 1}:0]" if port.count > 1 else ""
    return f"logic {lanes}[{port.bits - 1}:0] {port.name}"


def _texts(ports: Ports) -> Iterator[str]:
    """A function that formats each port and each struct as text."""
    distinct: dict[str, Port] = {}
    for port in ports.all:
        distinct.setdefault(port.name, port)
    for port in distinct.values():
        yield _lane_text(port)
    for name, group in (("inputs", ports.inputs), ("outputs", ports.outputs), ("registers", ports.state)):
        if group:
            yield _struct_text(name, group)


def _lane_text(port: Port) -> str:
    """The text of one lane, as `refemu step` prints it."""
    body = "\n".join(f"    {line}" for line in _lane_lines(port))
    return (
        f"  function automatic string {port.name}_text(logic [{port.bits - 1}:0] code);\n"
        f'    if ((^code) === 1\'bx) return "unknown";\n{body}\n  endfunction'
    )


def _lane_lines(port: Port) -> Iterator[str]:
    digits = -(-port.bits // 4)
    code = f"0x%0{digits}h"
    if port.kind in FLOATS:
        fraction, exponent, shown = FLOATS[port.kind]
        value = f'float_text(32\'(code), {fraction}, {exponent}, "%.{shown}g")'
        yield f'return {{$sformatf("{code}=", code), {value}}};'
    elif port.kind in value_text.NUMBERS:
        names = value_text.names(port.meaning)
        if names:
            yield "case (code)"
            yield from (
                f'  {port.bits}\'d{at}: return "{at}={bench.plain_text(name)}";' for at, name in enumerate(names)
            )
            yield "  default: ;"
            yield "endcase"
        yield f'return $sformatf("%0d", {"$signed(code)" if port.signed else "code"});'
    else:
        yield f'return $sformatf("{code}", code);'


def _struct_text(name: str, group: Sequence[Port]) -> str:
    lines = [f"  function automatic string {name}_text({name}_t word);", "    string text;", '    text = "";']
    for number, port in enumerate(group):
        space = " " if number else ""
        if port.count == 1:
            lines.append(f'    text = {{text, "{space}{port.name}=", {port.name}_text(word.{port.name})}};')
            continue
        lines.append(f'    text = {{text, "{space}{port.name}="}};')
        lines.append(
            f"    for (int lane = 0; lane < {port.count}; lane++) "
            f'text = {{text, lane > 0 ? "," : "", {port.name}_text(word.{port.name}[lane])}};'
        )
    return "\n".join([*lines, "    return text;", "  endfunction"])


def _differences(outputs: Sequence[Port]) -> Iterator[str]:
    for port in outputs:
        for lane in ["[lane]"] if port.count > 1 else [""]:
            start = f"        for (int lane = 0; lane < {port.count}; lane++)\n  " if lane else ""
            place = f"{port.name}[%0d]" if lane else port.name
            lanes = "lane, " if lane else ""
            at = f"{port.name}{lane}"
            yield (
                f"{start}        if (((got.{at} ^ item.want.{at}) & item.care.{at}) !== '0)\n"
                f'          $display("  {place}: got %s want %s", {lanes}{port.name}_text(got.{at}), '
                f"{port.name}_text(item.want.{at}));"
            )


def _toggles(outputs: Sequence[Port]) -> Iterator[str]:
    for number, port in enumerate(outputs):
        comma = ", " if number else ""
        form = f'{comma}\\"{port.name}\\": {{\\"bits\\": {port.bits * port.count}, \\"0\\": %0d, \\"1\\": %0d, '
        form += '\\"rising\\": %0d, \\"falling\\": %0d}'
        seen = ", ".join(f"$countones({each}.{port.name})" for each in ("zero", "one", "rising", "falling"))
        yield f'      text = {{text, $sformatf("{form}", {seen})}};'


def _members(pairs: Sequence[tuple[str, str]]) -> str:
    """Statements that add members of a JSON object to `text`."""
    lines = []
    for number, (name, counter) in enumerate(pairs):
        comma = ", " if number else ""
        lines.append(f'      text = {{text, $sformatf("{comma}\\"{bench.plain_text(name)}\\": %0d", {counter})}};')
    return "\n".join(lines)


def _coverpoints(ports: Ports, flags: Sequence[tuple[int, str]]) -> Iterator[str]:
    """A coverpoint for every narrow lane, for the sign of a wide one and for every flag."""
    for side, group in (("stimulus", ports.inputs), ("got", ports.outputs)):
        for port in group:
            for lane in range(min(port.count, BINNED_LANES)):
                place = f"{side}.{port.name}" + (f"[{lane}]" if port.count > 1 else "")
                label = f"{side}_{port.name}" + (f"_{lane}" if port.count > 1 else "")
                yield from _coverpoint(label, place, port)
    for bit, name in flags:
        yield f"      flag_{name.lower()}: coverpoint flags[{bit}];"


def _coverpoint(label: str, place: str, port: Port) -> Iterator[str]:
    if port.bits <= BIN_BITS:
        yield f"      {label}: coverpoint {place} {{ bins value[] = {{[0:{(1 << port.bits) - 1}]}}; }}"
        return
    last, middle = (1 << port.bits) - 1, 1 << port.bits - 1
    bounds = (1, middle - 1, middle, last - 1, last)
    lowest, below, above, high, top = (f"{port.bits}'h{word:x}" for word in bounds)
    yield f"      {label}: coverpoint {place} {{"
    yield f"        bins zero = {{0}}; bins ones = {{{top}}};"
    yield f"        bins low = {{[{lowest}:{below}]}}; bins high = {{[{above}:{high}]}};"
    yield "      }"


CLOCK = "  logic clk = 0, rst = 0;\n"
EDGE = "      #1 clk = 1; #1 clk = 0; #1;"
RESET = "      if (item.first) begin rst = 1; #1 clk = 1; #1 clk = 0; rst = 0; end\n"


def _bench(unit: AnyUnit, golden: sets.Golden, ports: Ports) -> dict[str, str]:
    event = unit.timing == "event"
    masked = any(entry["role"] == "mask" and entry["name"].startswith("out.") for entry in golden.manifest["arrays"])
    path = 'path = {vec, "/hex/care.mem"}; must_exist(path);'
    read = f"{path} $readmemh(path, care); must_be_whole(path, &care[ROWS] === 1);"
    connected = [
        *(f".{name}({name})" for name in bench.CLOCKED if event),
        *(f".{port.name}(stimulus.{port.name})" for port in ports.inputs),
        *(f".{port.name}(got.{port.name})" for port in ports.outputs),
    ]
    return {
        "clock": CLOCK if event else "",
        "connected": ",\n    ".join(connected),
        "first": "stim[row][STIMULUS_BITS-1]" if event else "row == 0",
        "care": "care[row]" if masked else "'1",
        "read_care": f"    {read}" if masked else "",
        "reset": RESET if event else "",
        "edge": EDGE if event else "      #1;",
    }
