"""One device with many bugs, of which +BUG=<n> chooses one as the simulation starts, so that a build serves many.

The modules that a bug changes, and those around them, are copied in the source for each bug, under other names. A
copy that was not chosen sees constant inputs, and no clock.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.rtl.benches import HERE, Design
from examples.rtl.mutants import Mutant
from refemu import units
from refemu.golden.rtl import bench

TOP = """\
  integer bug;
  initial if (!$value$plusargs("BUG=%d", bug)) bug = 0;
{copies}
{assigns}
endmodule
"""


def changed(design: Design, mutant: Mutant) -> dict[str, str]:
    """Sources of a design with one bug, by name."""
    texts = {name: (HERE / name).read_text() for name in design.sources}
    text = texts[mutant.file]
    if text.count(mutant.old) != 1:
        sys.exit(f"{mutant.file}: {mutant.old!r} must occur once, got {text.count(mutant.old)} times")
    return {**texts, mutant.file: text.replace(mutant.old, mutant.new)}


def one(design: Design, mutant: Mutant, folder: Path) -> list[Path]:
    """Write a design with one bug into `folder`."""
    for name, text in changed(design, mutant).items():
        (folder / name).write_text(text)
    return [folder / name for name in design.sources]


def many(design: Design, mutants: Sequence[Mutant], folder: Path) -> list[Path]:
    """Write one source into `folder`: bug 0 is the design itself, bug n the n-th of `mutants`."""
    texts = {name: (HERE / name).read_text() for name in design.sources}
    parts = [renamed(design, texts, set(texts), 0)]
    for number, mutant in enumerate(mutants, 1):
        parts.append(renamed(design, changed(design, mutant), around(texts, mutant.file), number))
    written = folder / "bugs.v"
    written.write_text("\n".join([*parts, top(design, len(mutants) + 1)]))
    return [written]


def around(texts: dict[str, str], file: str) -> set[str]:
    """The file, and those that use its modules, directly or not."""
    reached = {file}
    while True:
        names = "|".join(name for each in reached for name in modules(texts[each]))
        more = {each for each, text in texts.items() if re.search(rf"\b({names})\b", text)} | reached
        if more == reached:
            return reached
        reached = more


def modules(text: str) -> list[str]:
    """Names of the modules in a source."""
    return re.findall(r"^\s*module\s+(\w+)", text, re.MULTILINE)


def renamed(design: Design, texts: dict[str, str], files: set[str], number: int) -> str:
    """Some files, their modules under names of their own; of bug 0 only the top one has another name."""
    names = [name for file in files for name in modules(texts[file]) if number or name == design.unit]
    pattern = re.compile(rf"\b({'|'.join(names)})\b(?!\.)")
    return "\n".join(pattern.sub(rf"\1_bug{number}", texts[file]) for file in design.sources if file in files)


def top(design: Design, count: int) -> str:
    """The unit's module around all copies."""
    unit = units.find(design.unit)
    ports = unit.ports(unit.configs[design.config])
    inputs = [*(bench.CLOCKED if unit.timing == "event" else ()), *(port.name for port in ports.inputs)]
    copies, assigns = [], []
    for number in range(count):
        wires = [f"  wire [{port.bits * port.count - 1}:0] {port.name}_bug{number};" for port in ports.outputs]
        chosen = [f".{name}(bug == {number} ? {name} : 0)" for name in inputs]
        answers = [f".{port.name}({port.name}_bug{number})" for port in ports.outputs]
        copies += [*wires, f"  {design.unit}_bug{number} bug{number} ({', '.join([*chosen, *answers])});"]
    for port in ports.outputs:
        choices = "".join(f"bug == {number} ? {port.name}_bug{number} : " for number in range(1, count))
        assigns.append(f"  assign {port.name} = {choices}{port.name}_bug0;")
    stub = bench.files(unit, design.config)[f"{design.unit}.v"].decode()
    return stub.replace("endmodule\n", TOP.format(copies="\n".join(copies), assigns="\n".join(assigns)))
