"""`refemu export`: sets in the forms of other tools, benches and packages for RTL, a live predictor, a check in C."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from refemu.arith.checks import Refused
from refemu.cli.output import print_lines

if TYPE_CHECKING:
    from refemu.units.unit import AnyUnit


def run(arguments: argparse.Namespace) -> int:
    """Write a set as text, to a file or to standard output, or what goes beside the set of a unit; returns 0."""
    if arguments.form in ("rtl", "c"):
        return _beside(arguments)
    if arguments.form == "sv":
        return _sv(arguments)
    if arguments.form == "shell":
        return _shell(arguments)
    if arguments.form == "dpi":
        return _dpi(arguments)
    from refemu import golden
    from refemu.golden.files import exchange, store

    lines = exchange.export(golden.load(arguments.set), arguments.form)
    if arguments.out is None:
        print_lines(lines)
    else:
        store.write_files({Path(arguments.out): "".join(lines).encode()})
    return 0


def _beside(arguments: argparse.Namespace) -> int:
    """The golden set is made anew; files beside it that are there already belong to the user and stay."""
    from refemu import golden, units
    from refemu.golden.c import program
    from refemu.golden.files import store

    unit, config = units.choose(arguments.unit, arguments.config)
    out, in_c = Path(arguments.out), arguments.form == "c"
    missing, kept = program.files_to_write(unit, config, out) if in_c else _of_a_core(arguments, unit, config)
    spec = [f"{unit.key}:{config}"]
    written = golden.generate(out, units=spec, kinds=["paper", "edge", "random"], hex=not in_c, bin=in_c)
    store.write_files(missing)
    source, then = (
        (f"{unit.name}.c", f"compile check_{unit.name}.c as it says") if in_c else (f"{unit.name}.v", "run make")
    )
    print(f"{written[0].path}: {written[0].rows} rows; fill in {out / source} and {then} there")
    if kept:
        names = ", ".join(map(str, kept))
        print(f"kept, though this refemu writes them otherwise: {names}; move them away for new ones")
    return 0


def _of_a_core(arguments: argparse.Namespace, unit: "AnyUnit", config: str) -> tuple[dict[Path, bytes], list[Path]]:
    """Files of an RTL bench, and how it drives the core; a port map is read now, so that it is refused now."""
    from refemu.golden.rtl import bench, mapping

    out, path = Path(arguments.out), ""
    if arguments.map:
        mapping.read(arguments.map, unit.name, unit.ports(unit.config(config)))
        path = os.path.relpath(arguments.map, out)
    return bench.files_to_write(unit, config, out, path, arguments.latency, arguments.valid)


def _sv(arguments: argparse.Namespace) -> int:
    """Files of the bench are written anew, and a device that is there stays."""
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
    print(f"{written[0].path}: {loaded.rows} rows; make -C {out} -f sv.mk DEVICE=... holds a device against them")
    return 0


def _shell(arguments: argparse.Namespace) -> int:
    """What the Makefile of a bench has made for a core with a port map, for registers and for waivers."""
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
            f"map; registers of the unit: {known}"
        )
    out, origin = Path(arguments.out), f"Made of {arguments.map}." if arguments.map else ""
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
    """As for `rtl`: the golden set is made anew, and what the user changed stays."""
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
        print(f"kept, though this refemu writes them otherwise: {names}; move them away for new ones")
    return 0
