"""`refemu export`: a set in the text forms of other harnesses, benches for a unit's RTL."""

import argparse
import os
from pathlib import Path

from refemu.arith.checks import Refused
from refemu.cli.output import print_lines


def run(arguments: argparse.Namespace) -> int:
    """Write a set as text, to a file or to standard output, or the benches of a unit; returns 0."""
    if arguments.form in ("rtl", "shell"):
        return _rtl(arguments) if arguments.form == "rtl" else _shell(arguments)
    from refemu import golden
    from refemu.golden.files import exchange, store

    lines = exchange.export(golden.load(arguments.set), arguments.form)
    if arguments.out is None:
        print_lines(lines)
    else:
        store.write_files({Path(arguments.out): "".join(lines).encode()})
    return 0


def _rtl(arguments: argparse.Namespace) -> int:
    """The golden set is made anew; files beside it that are there already belong to the user and stay."""
    from refemu import golden, units
    from refemu.golden.files import store
    from refemu.golden.rtl import bench, mapping

    unit, config = units.choose(arguments.unit, arguments.config)
    out = Path(arguments.out)
    map_path = ""
    if arguments.map:
        mapping.read(arguments.map, unit.name, unit.ports(unit.config(config)))
        map_path = os.path.relpath(arguments.map, out)
    missing, kept = bench.beside(unit, config, out, map_path, arguments.latency, arguments.valid)
    written = golden.generate(out, units=[f"{unit.name}:{config}"], kinds=["paper", "edge", "random"], hex=True)
    store.write_files(missing)
    print(f"{written[0].path}: {written[0].rows} rows; fill in {out / unit.name}.v and run make there")
    if kept:
        names = ", ".join(map(str, kept))
        print(f"kept, though this refemu writes them otherwise: {names}; move them away for new ones")
    return 0


def _shell(arguments: argparse.Namespace) -> int:
    """What the Makefile of a bench has made for a core with a port map, for registers and for waivers."""
    from refemu import golden, units
    from refemu.golden.files import store
    from refemu.golden.rtl import made, mapping, shell

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
    written = {"shell.v": shell.text(unit, set_.config, map_, origin).encode("ascii", "backslashreplace")}
    if arguments.regs:
        written |= made.registers(set_)
    if arguments.waive:
        written["waive.mem"] = made.mask(set_, arguments.waive)
    out.mkdir(parents=True, exist_ok=True)
    store.write_files({out / name: content for name, content in written.items()})
    return 0
