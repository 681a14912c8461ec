"""A C program that checks a function against a golden set, generated from a unit's descriptor, with a stub.

The function computes one row from a pointer per port, inputs first, to the lanes of that row. A unit with registers
also gets `first`: 1 at the first row of a case, before which its registers are reset.
"""

from importlib import resources
from pathlib import Path
from string import Template

from refemu.golden.make import user_files as user_files
from refemu.units import parameters
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit

MAKEFILE = "Makefile"
HEADER = "golden_set.h"  #: the same for every set


def files(unit: AnyUnit, config: str) -> dict[str, bytes]:
    """Names and contents: a stub of the function and its header, the check, and the header that reads sets."""
    ports, upper = unit.ports(unit.config(config)), unit.name.upper()
    first = ["first"] if unit.timing == "event" else []
    declared = [*(["int first"] if first else []), *(_declared(upper, port, "const ") for port in ports.inputs)]
    declared += [_declared(upper, port, "") for port in ports.outputs]
    names = [*first, *(port.name for port in (*ports.inputs, *ports.outputs))]
    arguments = ["first[row]"] * len(first)
    for side, group in (("in", ports.inputs), ("out", ports.outputs)):
        arguments += [f"{side}_{port.name} + row * {upper}_{port.name.upper()}_LANES" for port in group]
    parts = {
        "unit": unit.name,
        "upper": upper,
        "set": parameters.set_name(unit, config),
        "paper": _ascii(unit.paper),
        "meaning": _ascii(unit.meaning),
        "declared": (",\n" + " " * len(f"void {unit.name}(")).join(declared),
        "unused": "\n".join(f"    (void){name};" for name in names),
        "read": "\n".join(
            [
                *(f'    const uint8_t *first = golden_read(set, "first", {upper}_ROWS, 1, 1);' for _ in first),
                *(_read(upper, port) for port in ports.inputs),
                *(_answer(upper, port) for port in ports.outputs),
            ]
        ),
        "called": (",\n" + " " * (8 + len(unit.name) + 1)).join(arguments),
        "outputs": "\n".join(_output(upper, port) for port in ports.outputs),
    }
    texts = {
        f"{unit.name}.c": _text("unit.c").substitute(parts),
        f"{unit.name}.h": _text("unit.h").substitute(parts),
        f"check_{unit.name}.c": _text("check_unit.c").substitute(parts),
        HEADER: _text(HEADER).template,
        MAKEFILE: _text(MAKEFILE).substitute(parts),
    }
    return {name: content.encode("ascii") for name, content in texts.items()}


def files_to_write(unit: AnyUnit, config: str, folder: Path) -> tuple[dict[Path, bytes], list[Path]]:
    """Files to write into `folder` for `unit`, and existing files that differ and are not replaced.

    Refused: the folder has a check of another configuration.
    """
    texts = {folder / name: data for name, data in files(unit, config).items()}
    sources = (f"{unit.name}.c", f"{unit.name}.h")
    return user_files.missing(texts, parameters.set_name(unit, config), sources, (HEADER,))


def _declared(upper: str, port: Port, const: str) -> str:
    return f"{const}{upper}_{port.name.upper()}_TYPE *{port.name}"


def _read(upper: str, port: Port) -> str:
    label = port.name.upper()
    return f'    const {upper}_{label}_TYPE *in_{port.name} = GOLDEN_READ(set, {upper}, {label}, "in.{port.name}");'


def _answer(upper: str, port: Port) -> str:
    return f"    {upper}_{port.name.upper()}_TYPE *out_{port.name} = GOLDEN_ANSWER({upper}, {port.name.upper()});"


def _output(upper: str, port: Port) -> str:
    return f'        GOLDEN_OUTPUT(set, {upper}, {port.name.upper()}, "out.{port.name}", out_{port.name}),'


def _text(name: str) -> Template:
    return Template(resources.files("refemu.golden.c").joinpath(f"texts/{name}").read_text("ascii"))


def _ascii(line: str) -> str:
    """Text for a C comment: ASCII, without the end of a comment."""
    return line.replace("§", "section ").replace("*/", "* /").encode("ascii", "replace").decode()
