"""What no bench may pass: devices that end the simulation or fall silent, the set of another configuration, and a copy
of the set with one output bit of each row inverted, which must differ in exactly the rows where that bit counts."""

import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np

from examples.rtl.benches import DESIGNS, HERE, Design, call, make, program
from refemu import golden, units
from refemu.golden.files import hexfile, manifest, sets, store
from refemu.golden.rtl import bench

#: a design of each kind: combinational, with registers, with care masks; and one of them with another configuration,
#: whose ports and rows are as many
KINDS_OF_UNIT = ("ovp_decoder-int4", "free_page_list-small", "bfp_aligner-paper")
FAULTY = next(design for design in DESIGNS if design.set == "ovp_decoder-int4")
OTHER = {"bfp_aligner-paper": "half_even"}

#: +FAULT=<n> of the wrapper; 0 is the design itself
FAULTS = (
    "none",
    "ends the simulation at once",
    "ends the simulation after a while",
    "never answers",
    "answers x after a while",
)
BODY = """\
{wires}
  {unit}_right right (
    {connected}
  );
  integer fault, ticks = 0;
  wire tick = ^{{{inputs}}};
  initial begin
    if (!$value$plusargs("FAULT=%d", fault)) fault = 0;
    if (fault == 1) $finish;
  end
  always @(posedge tick) begin
    ticks <= ticks + 1;
    if (fault == 2 && ticks == 20) $finish;
  end
  wire silent = fault == 3 || (fault == 4 && ticks > 20);
{assigns}
endmodule
"""


@dataclasses.dataclass(frozen=True)
class Held:
    """What one bench says of something that it must not pass, or of the device inside the faulty ones."""

    set: str
    simulator: str
    what: str
    right: bool  #: whether it says what it must
    output: str = ""  #: of the simulator, if it does not


def held(design: Design, folder: Path, simulator: str, out: Path) -> Iterator[Held]:
    """All that concerns `design` in one simulator. folder: as `export` made it. out: where other sets go."""
    if design.set in KINDS_OF_UNIT:
        yield inverted(design, folder, simulator, out)
    if design.set in OTHER:
        yield wrong_set(design, folder, simulator, out)
    if design == FAULTY:
        yield from faulty(design, folder, simulator, out / "faulty")


def faulty(design: Design, folder: Path, simulator: str, out: Path) -> Iterator[Held]:
    """Every fault, by way of the Makefile; first none, so that a fault is what fails the others."""
    out.mkdir(exist_ok=True)  # a folder of its own, where the simulator keeps what it built
    for name in ("Makefile", "ports.sh", f"shell_{design.unit}.v", f"tb_{design.unit}.v", f"test_{design.unit}.py"):
        shutil.copyfile(folder / name, out / name)
    sources, target, inner = wrapped(design, out), *simulator.partition("-")[::2]
    words = [f"VEC={folder / design.set}", *([f"SIM={inner}"] if inner else [])]
    for number, what in enumerate(FAULTS):
        ran = make(target, out, sources, f"ARGS=+FAULT={number}", *words)
        text = ran.stdout + ran.stderr
        right = passes(design, ran) if number == 0 else fails(ran) and "FAIL" in text
        yield Held(design.set, simulator, f"device: {what}", right, "" if right else text)


def passes(design: Design, ran: "CompletedProcess[str]") -> bool:
    """Whether a bench passed its device."""
    return ran.returncode == 0 and re.search(rf"^PASS \d+ rows of {design.set},", ran.stdout, re.MULTILINE) is not None


def fails(ran: "CompletedProcess[str]") -> bool:
    """Whether the exit code says so, and nothing says the contrary."""
    return ran.returncode != 0 and re.search(r"^PASS ", ran.stdout + ran.stderr, re.MULTILINE) is None


def wrapped(design: Design, folder: Path) -> list[Path]:
    """Sources, in `folder`, of a device around the right one that has the faults."""
    for name in design.sources:
        text = (HERE / name).read_text()
        (folder / name).write_text(re.sub(rf"\bmodule {design.unit}\b", f"module {design.unit}_right", text))
    unit = units.find(design.unit)
    ports = unit.ports(unit.configs[design.config])
    bits = {port.name: port.bits * port.count for port in ports.outputs}
    inputs = [*(bench.CLOCKED if unit.timing == "event" else ()), *(port.name for port in ports.inputs)]
    connected = [*(f".{name}({name})" for name in inputs), *(f".{name}(right_{name})" for name in bits)]
    body = BODY.format(
        unit=design.unit,
        inputs=", ".join(inputs),
        connected=",\n    ".join(connected),
        wires="\n".join(f"  wire [{width - 1}:0] right_{name};" for name, width in bits.items()),
        assigns="\n".join(
            f"  assign {name} = !silent ? right_{name} : fault == 4 ? {{{width}{{1'bx}}}} : {{{width}{{1'bz}}}};"
            for name, width in bits.items()
        ),
    )
    stub = bench.files(unit, design.config)[f"{design.unit}.v"].decode()
    (folder / "faulty.v").write_text(stub.replace("endmodule\n", body))
    return [folder / name for name in (*design.sources, "faulty.v")]


def wrong_set(design: Design, folder: Path, simulator: str, out: Path) -> Held:
    """The bench of one configuration with the set of another: rejected by name."""
    config = OTHER[design.set]
    (other,) = golden.generate(out / "others", units=[design.unit], configs=[config], kinds=["edge"], hex=True)
    ran = run(design, folder, simulator, Path(other.path))
    text = ran.stdout + ran.stderr
    right = fails(ran) and f"this bench is of {design.set}, the set in {other.path} is {design.unit}-{config}" in text
    return Held(design.set, simulator, f"set: of {config}", right, "" if right else text)


def inverted(design: Design, folder: Path, simulator: str, out: Path) -> Held:
    """Output bit r mod B of row r is inverted, B the bits of an answer: exactly these rows differ."""
    set_ = golden.load(folder / design.set)
    copy, wrong = out / "inverted" / design.set, inverted_bits(set_)
    store.replace(copy, sets.render(*copied(set_, wrong), hex=True))
    ran = run(design, folder, simulator, copy, "+ALL")
    text = ran.stdout + ran.stderr
    rows = np.flatnonzero(counted(set_, wrong)).tolist()
    right = (
        fails(ran)
        and [int(row) for row in re.findall(r"^FAIL row (\d+):", text, re.MULTILINE)] == rows
        and f"FAIL {len(rows)} of {set_.rows} rows differ" in text
        and rows != []
    )
    return Held(
        design.set,
        simulator,
        f"set: a bit of each row inverted, {len(rows)} of {set_.rows} count",
        right,
        "" if right else text,
    )


def inverted_bits(set_: golden.Golden) -> dict[str, np.ndarray]:
    """By array the bits that are inverted, one in each row."""
    fields = hexfile.layout([entry for entry in set_.manifest["arrays"] if entry["role"] == "expected"])
    bits = {field["name"]: np.zeros_like(set_.arrays[field["name"]]) for field in fields}
    for row in range(set_.rows):
        at = row % hexfile.width(fields)
        field = next(field for field in fields if field["lsb"] <= at < field["lsb"] + field["bits"])
        flat = bits[field["name"]].reshape(set_.rows, -1)
        flat[row, field["lane"]] = 1 << (at - field["lsb"])
    return bits


def counted(set_: golden.Golden, bits: dict[str, np.ndarray]) -> np.ndarray:
    """bool (rows,): where a bit of `bits` is to be compared."""
    masked = [array & set_.arrays.get(f"{name}.care", array) for name, array in bits.items()]
    return np.any([array.reshape(set_.rows, -1).any(axis=1) for array in masked], axis=0)


def copied(set_: golden.Golden, bits: dict[str, np.ndarray]) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """Manifest and arrays of `set_` with `bits` inverted."""
    arrays = {name: array ^ bits[name] if name in bits else array for name, array in set_.arrays.items()}
    entries = [{**entry, "sha256": manifest.array_sha256(arrays[entry["name"]])} for entry in set_.manifest["arrays"]]
    return {**set_.manifest, "arrays": entries}, arrays


def run(design: Design, folder: Path, simulator: str, vectors: Path, *words: str) -> "CompletedProcess[str]":
    """The right device against the set in `vectors`, in a bench that was built with the design's own set."""
    sources = [HERE / name for name in design.sources]
    if simulator.startswith("cocotb"):
        inner = simulator.partition("-")[2]
        return make("cocotb", folder, sources, f"SIM={inner}", f"VEC={vectors}", f"ARGS={' '.join(words)}")
    built = make(program(design, simulator)[-1], folder, sources)
    if built.returncode:
        return built
    return call([*program(design, simulator), f"+VEC={vectors}", *words], folder)
