"""`refemu export`: convert sets; write testbenches, a live predictor, a check in C and a formal reference."""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from refemu.arith.checks import Refused
from refemu.cli.output import print_lines

if TYPE_CHECKING:
    from refemu.units.unit import AnyUnit


def run(arguments: argparse.Namespace) -> int:
    """Write a set as text, or a testbench and the set of a unit; return 0."""
    if arguments.form in ("rtl", "c"):
        return _beside(arguments)
    if arguments.form == "sv":
        return _sv(arguments)
    if arguments.form == "shell":
        return _shell(arguments)
    if arguments.form == "suite":
        return _suite(arguments)
    if arguments.form == "dpi":
        return _dpi(arguments)
    if arguments.form == "formal":
        return _formal(arguments)
    from refemu import golden
    from refemu.golden.files import exchange, store

    lines = exchange.export(golden.load(arguments.set), arguments.form)
    if arguments.out is None:
        print_lines(lines)
    else:
        store.write_files({Path(arguments.out): "".join(lines).encode()})
    return 0


def _beside(arguments: argparse.Namespace) -> int:
    """Regenerate the golden set; other files that exist belong to the user and are preserved."""
    from refemu import golden, units
    from refemu.golden.c import program
    from refemu.golden.files import store

    unit, config = units.choose(arguments.unit, arguments.config)
    out, in_c = Path(arguments.out), arguments.form == "c"
    missing, kept = program.files_to_write(unit, config, out) if in_c else _of_a_core(arguments, unit, config)
    spec = [f"{unit.key}:{config}"]
    written = golden.generate(out, units=spec, kinds=["paper", "edge", "random"], hex=not in_c, bin=in_c)
    store.write_files(missing)
    if in_c:
        do = f"fill in {out / unit.name}.c and run make there"
    elif arguments.map:
        do = f'run make DEVICE="YOUR SOURCES" in {out}, with paths relative to it'
    else:
        do = f"fill in {out / unit.name}.v and run make there"
    print(f"{written[0].path}: {written[0].rows} rows; {do}")
    if kept:
        names = ", ".join(map(str, kept))
        print(
            f"not overwritten: {names}; this version of refemu writes them differently. Move them away to get its own"
        )
    return 0


def _of_a_core(arguments: argparse.Namespace, unit: "AnyUnit", config: str) -> tuple[dict[Path, bytes], list[Path]]:
    """Files of an RTL bench that drives the core as the options say; an invalid port map is an error at once."""
    from refemu.golden.rtl import bench, mapping

    out, path = Path(arguments.out), ""
    if arguments.map:
        mapping.read(arguments.map, unit.name, unit.ports(unit.config(config)))
        path = os.path.relpath(arguments.map, out)
    return bench.files_to_write(unit, config, out, path, arguments.latency, arguments.valid)


def _sv(arguments: argparse.Namespace) -> int:
    """Write the files of the bench; an existing device is preserved."""
    from refemu import golden, units
    from refemu.golden.files import store
    from refemu.golden.rtl import bench, systemverilog

    unit, config = units.choose(arguments.unit, arguments.config)
    out = Path(arguments.out)
    written = golden.generate(out, units=[f"{unit.key}:{config}"], kinds=["paper", "edge", "random"], hex=True)
    loaded = golden.load(written[0].path)
    texts = {out / name: data for name, data in systemverilog.files(loaded).items()}
    stub = out / f"{unit.name}.v"
    store.write_files(texts if stub.exists() else texts | {stub: bench.files(unit, config)[stub.name]})
    print(f"{written[0].path}: {loaded.rows} rows; run make -C {out} -f sv.mk DEVICE=your.v")
    return 0


def _suite(arguments: argparse.Namespace) -> int:
    """Write sets as JSON tests, those of every unit where none is named."""
    from refemu import golden, scratch
    from refemu.cli.progress import progress
    from refemu.golden.suite import suite

    out = Path(arguments.out)
    scratch.sweep(out.parent, re.compile(r"\.suite[0-9a-f]{16}"))
    with scratch.folder(out.parent, ".suite") as folder, progress() as bar:
        if not arguments.set:
            golden.generate(folder, kinds=["paper", "edge", "random"], progress=bar)
        written, tests = suite.write(out, arguments.set or [str(folder)])
    print(f"{out}: {written} sets, {tests} tests; run.py, run.c and run.sv read them")
    return 0


def _shell(arguments: argparse.Namespace) -> int:
    """Write what the Makefile of a bench needs for a port map, registers and waivers."""
    from refemu import golden, units
    from refemu.golden.compare import diff_text, waivers
    from refemu.golden.files import store
    from refemu.golden.rtl import bench_files, mapping, wrapper

    set_ = golden.load(arguments.set)
    unit = units.find(set_.manifest["unit"])
    ports = unit.ports(unit.config(set_.config))
    map_ = mapping.read(arguments.map, unit.name, ports) if arguments.map else mapping.Map()
    if arguments.regs and not map_.registers:
        known = ", ".join(port.name for port in ports.state) or "none"
        raise Refused(
            f'{unit.name}: REGS needs hierarchical names: give "registers": {{OURS: "path.in.your.core"}} in a port '
            f"map; the unit has {known}"
        )
    out, origin = Path(arguments.out), f"Generated from {arguments.map}." if arguments.map else ""
    written = {"shell.v": wrapper.text(unit, set_.config, map_, origin).encode("ascii", "backslashreplace")}
    if arguments.regs:
        written |= bench_files.registers(set_)
    if arguments.waive:
        left = waivers.bits(set_, arguments.waive, arguments.force)
        written["waive.mem"] = bench_files.mask(set_, arguments.waive, left)
        print("\n".join(diff_text.coverage(arguments.waive, *waivers.coverage(set_, left))))
    out.mkdir(parents=True, exist_ok=True)
    store.write_files({out / name: content for name, content in written.items()})
    return 0


def _dpi(arguments: argparse.Namespace) -> int:
    """Regenerate the golden set; files that the user changed are preserved."""
    from refemu import golden, units
    from refemu.golden.files import store
    from refemu.golden.rtl import dpi

    unit, config = units.choose(arguments.unit, arguments.config)
    out = Path(arguments.out)
    missing, kept = dpi.files_to_write(unit, config, out, arguments.name or "", arguments.registers)
    written = golden.generate(out, units=[f"{unit.key}:{config}"], kinds=["paper", "edge", "random"], hex=True)
    store.write_files(missing)
    print(f"{written[0].path}: {written[0].rows} rows; run make client there, or make verilator DEVICE=your.v")
    if kept:
        names = ", ".join(map(str, kept))
        print(
            f"not overwritten: {names}; this version of refemu writes them differently. Move them away to get its own"
        )
    return 0


def _formal(arguments: argparse.Namespace) -> int:
    """Write the reference of a unit; return 3 if its terms and the unit differ."""
    from refemu import units
    from refemu.golden.files import store
    from refemu.golden.formal import files, reference
    from refemu.prove.selfcheck import Disagrees

    unit, config = units.choose(arguments.unit, arguments.config)
    try:
        written = reference.reference(unit, config)
    except Disagrees as error:
        print(f"refemu: {error}; this is an error inside refemu, please report it", file=sys.stderr)
        return 3
    out = Path(arguments.out)
    texts = files.files(written)
    out.mkdir(parents=True, exist_ok=True)
    store.write_files({out / name: content for name, content in texts.items()})
    print(
        f"{out}: {', '.join(sorted(texts))}; {written.checked} rows through the terms equal the compiled form. "
        f"Put your design into {out / unit.name}.v and run yosys -s {unit.name}.ys there"
    )
    return 0
