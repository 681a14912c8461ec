"""`refemu export`: a set in the text forms of other harnesses, benches for a unit's RTL, a check of a C function."""

import argparse
from pathlib import Path

from refemu.cli.output import print_lines


def run(arguments: argparse.Namespace) -> int:
    """Write a set as text, to a file or to standard output, or what goes beside the set of a unit; returns 0."""
    if arguments.form in ("rtl", "c"):
        return _beside(arguments)
    if arguments.form == "sv":
        return _sv(arguments)
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
    from refemu.golden.rtl import bench

    unit, config = units.choose(arguments.unit, arguments.config)
    out, in_c = Path(arguments.out), arguments.form == "c"
    missing, kept = (program if in_c else bench).beside(unit, config, out)
    spec = [f"{unit.name}:{config}"]
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


def _sv(arguments: argparse.Namespace) -> int:
    """Files of the bench are written anew, and a device that is there stays."""
    from refemu import golden, units
    from refemu.golden.files import store
    from refemu.golden.rtl import bench, systemverilog

    unit, config = units.choose(arguments.unit, arguments.config)
    out = Path(arguments.out)
    written = golden.generate(out, units=[f"{unit.name}:{config}"], kinds=["paper", "edge", "random"], hex=True)
    loaded = golden.load(written[0].path)
    texts = {out / name: data for name, data in systemverilog.files(loaded).items()}
    stub = out / f"{unit.name}.v"
    store.write_files(texts if stub.exists() else texts | {stub: bench.files(unit, config)[stub.name]})
    print(f"{written[0].path}: {loaded.rows} rows; make -C {out} -f sv.mk DEVICE=... holds a device against them")
    return 0
