"""C sources of a live predictor, a package and a testbench for simulators with DPI-C, a client in C, a Makefile.

`refemu_dpi.c` starts `refemu serve` and exchanges frames with it; it is the same for every unit. The testbench draws
transactions and compares the device with the predictor; the device has the ports that `bench` describes.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

from refemu.arith.checks import Refused
from refemu.golden.make import user_files as user_files
from refemu.golden.rtl import bench, wrapper
from refemu.golden.rtl.keywords import require_names
from refemu.golden.serve import hello
from refemu.golden.serve.layout import WORD, Layout, Place
from refemu.units import parameters
from refemu.units.unit import AnyUnit

TEXTS = bench.TEXTS / "dpi"
SHARED = ("refemu_dpi.c", "refemu_dpi.h")  #: the same for every unit
#: parts of the testbench of a sequential unit; SETTLE belongs to a combinational one
CLOCK = """\
  logic clk = 0, rst = 0;
"""
RESTART = """\

  task restart;
    rst = 1; #1 clk = 1; #1 clk = 0; rst = 0;
    if (reset(predictor) != OK) $fatal(1, "FAIL %s", error(predictor));
  endtask
"""
START = "    restart;"
AGAIN = "      if ($urandom % 64 == 0) restart;"
EDGE = "        #1 clk = 1; #1 clk = 0; #1;"
SETTLE = "        #1;"
CHANGED = "differs from what this refemu writes; nothing was changed. Move it away, or choose another folder"


def files(unit: AnyUnit, config: str, name: str = "", registers: bool = False) -> dict[str, bytes]:
    """Names and contents.

    config: from `units.choose`. name: prefix of files and functions, by default the unit. registers: whether registers
    follow the outputs of an answer. Refused: a name that is not an identifier of C.
    """
    stem = name or unit.name
    require_names([stem], "export dpi --name")
    care = unit.care is not None
    said = hello.hello(unit, config, registers, care)
    asked, answers = hello.layouts(unit, config, registers, care)
    event = unit.timing == "event"
    options = ["--registers"] * registers + ["--care"] * care
    values = {
        "unit": stem,
        "upper": stem.upper(),
        "module": unit.name,
        "config": config,
        "set": said["set"],
        "spec": " ".join([f"{unit.key}:{config}", *options]),
        "digest": said["digest"],
        "words_in": str(asked.words),
        "words_out": str(answers.words),
        "clocked": str(int(event)),
        "paper": bench.plain_text(unit.paper),
        "meaning": bench.plain_text(unit.meaning),
        "bits_in": str(asked.width),
        "bits_out": str(sum(wrapper.width(place.port) for place in answers.places if place.group == "out")),
        "fields": "\n".join(_accessors(stem, asked, answers)),
        "in_fields": "\n".join(_struct(asked)),
        "out_fields": "\n".join(_struct(answers)),
        "wires": "\n".join(_wires(answers)),
        "clock": CLOCK if event else "",
        "connected": ",\n    ".join(_connected(asked, answers, event)),
        "draws": "\n".join(_draws(asked)),
        "compares": "\n".join(_compares(answers, care)),
        "restart": RESTART if event else "",
        "start": START if event else "",
        "again": AGAIN if event else "",
        "edge": EDGE if event else SETTLE,
    }
    names = {
        f"{stem}_dpi.h": "unit_dpi.h",
        f"{stem}_dpi.c": "unit_dpi.c",
        f"{stem}_dpi_pkg.sv": "unit_dpi_pkg.sv",
        f"tb_{stem}_random.sv": "tb_unit_random.sv",
        "client.c": "client.c",
        "Makefile": "Makefile",
    }
    texts = {file: Template(_text(text)).substitute(values) for file, text in names.items()}
    # drop lines that an empty part leaves blank
    texts = {file: re.sub(r"\n{3,}", "\n\n", text) for file, text in texts.items()}
    return {file: text.encode("ascii") for file, text in {**{name: _text(name) for name in SHARED}, **texts}.items()}


def files_to_write(
    unit: AnyUnit, config: str, folder: Path, name: str = "", registers: bool = False
) -> tuple[dict[Path, bytes], list[Path]]:
    """Files to write into `folder`, and files that the user changed, which are not replaced.

    The user edits testbench, client and Makefile. Refused: one of them belongs to another configuration, or any other
    source differs from the one to write.
    """
    texts = {folder / file: data for file, data in files(unit, config, name, registers).items()}
    kept = [path for path, data in texts.items() if path.exists() and path.read_bytes() != data]
    for path in kept:
        theirs = path.name in ("client.c", "Makefile") or path.name.startswith("tb_")
        if not theirs or b"_dpi" not in path.read_bytes():
            raise Refused(f"{path}: {CHANGED}")
        if not user_files.mentions(parameters.set_name(unit, config), path):
            raise Refused(
                f"{path}: belongs to another unit or configuration; nothing was changed. Choose another folder"
            )
    return {path: data for path, data in texts.items() if not path.exists()}, kept


def _text(name: str) -> str:
    return (TEXTS / name).read_text(encoding="ascii")


def _accessors(stem: str, asked: Layout, answers: Layout) -> Iterator[str]:
    for place in asked.places:
        yield from _constants(stem, place)
        yield from _setter(stem, place)
    for place in answers.places:
        yield from _constants(stem, place)
        yield from _getter(stem, place)


def _constants(stem: str, place: Place) -> Iterator[str]:
    label = f"{stem}_{'in_' if place.group == 'in' else ''}{place.name}".upper()
    yield f"/* {bench.about(place.port)} */"
    for word, value in (("LSB", place.lsb), ("BITS", place.port.bits), ("LANES", place.port.count)):
        yield f"#define {label}_{word} {value}"


def _at(place: Place) -> tuple[str, str]:
    """The parameter for a lane, and the lane's lowest bit."""
    if place.port.count == 1:
        return "", str(place.lsb)
    return ", unsigned lane", f"{place.lsb} + {place.port.bits} * lane"


def _setter(stem: str, place: Place) -> Iterator[str]:
    (lane, lsb), kind = _at(place), "int64_t" if place.port.signed else "uint64_t"
    yield f"static inline void {stem}_set_{place.name}(uint32_t *in{lane}, {kind} value) {{"
    yield f"  {stem}_put(in, {lsb}, {place.port.bits}, (uint64_t)value);"
    yield "}"
    yield ""


def _getter(stem: str, place: Place) -> Iterator[str]:
    (lane, lsb), kind = _at(place), "int64_t" if place.port.signed else "uint64_t"
    field = f"{stem}_field(out, {lsb}, {place.port.bits})"
    yield f"static inline {kind} {stem}_get_{place.name}(const uint32_t *out{lane}) {{"
    yield f"  return {f'{stem}_signed({field}, {place.port.bits})' if place.port.signed else field};"
    yield "}"
    yield ""


def _struct(layout: Layout) -> Iterator[str]:
    """Members of a packed struct, the top one first, padded to full words."""
    unused = WORD * layout.words - layout.width
    if unused:
        yield f"    bit [{unused - 1}:0] unused_bits;"
    for place in reversed(layout.places):
        lanes = f"[{place.port.count - 1}:0]" if place.port.count > 1 else ""
        sign = " signed" if place.port.signed and not lanes else ""
        yield f"    bit{sign} {lanes}[{place.port.bits - 1}:0] {place.name};"


def _outputs(answers: Layout) -> Sequence[Place]:
    return [place for place in answers.places if place.group == "out"]


def _wires(answers: Layout) -> Iterator[str]:
    for place in _outputs(answers):
        yield f"  wire [{wrapper.width(place.port) - 1}:0] out_{place.name};"


def _connected(asked: Layout, answers: Layout, event: bool) -> Iterator[str]:
    yield from (f".{name}({name})" for name in bench.CLOCKED if event)
    yield from (f".{place.name}(in.{place.name})" for place in asked.places)
    yield from (f".{place.name}(out_{place.name})" for place in _outputs(answers))


def _draws(asked: Layout) -> Iterator[str]:
    for place in asked.places:
        low, high = place.port.limits
        drawn = f"value(64'h{low & (1 << 64) - 1:x}, 64'h{high - low:x})"
        if place.port.count == 1:
            yield f"    in.{place.name} = {drawn};"
        else:
            yield f"    for (int lane = 0; lane < {place.port.count}; lane++) in.{place.name}[lane] = {drawn};"


def _compares(answers: Layout, care: bool) -> Iterator[str]:
    for place in _outputs(answers):
        name = place.name
        mask = f" & want.care_{name}" if care else ""
        yield f"    if (((out_{name} ^ want.{name}){mask}) !== '0)"
        yield f'      differs($sformatf("{name}: got %h want %h", out_{name}, want.{name}));'
