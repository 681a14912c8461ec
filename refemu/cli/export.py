"""`refemu export`: a set in the text forms of other harnesses, benches for a unit's RTL, a live predictor in C."""

import argparse
from pathlib import Path

from refemu.cli.output import print_lines


def run(arguments: argparse.Namespace) -> int:
    """Write a set as text, to a file or to standard output, the benches of a unit or its predictor; returns 0."""
    if arguments.form in ("rtl", "dpi"):
        return _rtl(arguments) if arguments.form == "rtl" else _dpi(arguments)
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
    from refemu.golden.rtl import bench

    unit, config = units.choose(arguments.unit, arguments.config)
    out = Path(arguments.out)
    missing, kept = bench.beside(unit, config, out)
    written = golden.generate(out, units=[f"{unit.name}:{config}"], kinds=["paper", "edge", "random"], hex=True)
    store.write_files(missing)
    print(f"{written[0].path}: {written[0].rows} rows; fill in {out / unit.name}.v and run make there")
    if kept:
        names = ", ".join(map(str, kept))
        print(f"kept, though this refemu writes them otherwise: {names}; move them away for new ones")
    return 0


def _dpi(arguments: argparse.Namespace) -> int:
    """As for `rtl`: the golden set is made anew, and what the user changed stays."""
    from refemu import golden, units
    from refemu.golden.files import store
    from refemu.golden.rtl import dpi

    unit, config = units.choose(arguments.unit, arguments.config)
    out = Path(arguments.out)
    missing, kept = dpi.beside(unit, config, out, arguments.name or "", arguments.registers)
    written = golden.generate(out, units=[f"{unit.name}:{config}"], kinds=["paper", "edge", "random"], hex=True)
    store.write_files(missing)
    print(f"{written[0].path}: {written[0].rows} rows; run make client there, or make verilator DEVICE=your.v")
    if kept:
        names = ", ".join(map(str, kept))
        print(f"kept, though this refemu writes them otherwise: {names}; move them away for new ones")
    return 0
