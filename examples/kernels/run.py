"""Every kernel against its golden sets, then every bug: `python -m examples.kernels.run [--out DIR] [--json]`.

With `--device cuda`, the kernels in numba.cuda and Triton on a GPU; with `--own UNIT:CONFIG=FILE`, a kernel of yours
(see own.py) alone or with them, each with its time and the least that the memory of the GPU allows.

Exit code 0 if every kernel that can run here is right in every bit and every bug planted into it is caught, 1 if not,
2 if a GPU is asked for and there is none.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from examples.kernels import host
from examples.kernels.bugs import BUGS, Bug, planted
from examples.kernels.ways import HERE, WAYS, Absent, Run, own, runs
from refemu import golden, units
from refemu.arith.checks import Refused
from refemu.golden.compare import answer_files, diff_text
from refemu.golden.compare.diff import compare

#: sets of each kernel
UNITS = {
    "ovp_decoder": ("int4", "flint4", "int8", "int8_repo"),
    "bfp_pe": ("paper", "exact"),
    "paged_attention": ("narrow", "f128", "f64"),
    "prompt_compressor": ("odd", "paper"),
    "page_reader": ("page",),
    "prefix_sum": ("odd", "paper"),
    "kv_quantizer": ("paper",),
    "kv_compressor": ("pages",),
}
NAMES = {
    "ovp_decoder": "outlier-victim decode",
    "bfp_pe": "BFP dot product",
    "paged_attention": "paged attention",
    "prompt_compressor": "prompt compaction",
    "page_reader": "page dequantize",
    "prefix_sum": "allocation of pages",
    "kv_quantizer": "quantization of a group",
    "kv_compressor": "compression into pages",
}
KINDS = ("paper", "edge", "random")


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    kernel: str
    way: str
    where: str
    set: str
    rows: int
    rows_per_second: float
    outcome: str  #: "equal", "skipped: ..." or the first difference; of a bug "caught by ..." or "NOT CAUGHT"
    good: bool
    bug: str = ""


def sets(out: Path) -> None:
    """The golden sets, with bin/ and headers, below `out`."""
    chosen = [f"{unit}:{config}" for unit, configs in UNITS.items() for config in configs]
    golden.generate(out, units=chosen, kinds=KINDS, bin=True)


def held(out: Path, way: str, unit: str, config: str) -> Line:
    """One kernel against one set, by `refemu.golden.compare.diff`."""
    name = f"{unit}-{config}"
    try:
        with tempfile.TemporaryDirectory() as work:
            run = WAYS[way](out / name, Path(work))
            difference = golden.diff(out / name, run.answers)
    except Absent as reason:
        return Line(NAMES[unit], way, "", name, 0, 0.0, f"skipped: {reason}", True)
    except Refused as reason:
        return Line(NAMES[unit], way, "", name, 0, 0.0, f"refused: {reason}", False)
    except RuntimeError as reason:  # one kernel that ends leaves the others their lines
        return Line(NAMES[unit], way, "", name, 0, 0.0, _ended(reason), False)
    lacking = [array for array in difference.not_compared if array.startswith("out.")]
    if lacking:
        return _line(unit, way, run, name, f"has no {', '.join(lacking)}", False)
    first = difference.first
    outcome = (
        "equal"
        if first is None
        else (
            f"{difference.rows_differ} rows differ; row {first.row}, {first.array}[{first.lane}]: "
            f"got {first.got.hex}, want {first.want.hex}"
        )
    )
    return _line(unit, way, run, name, outcome, difference.equal)


def _line(unit: str, way: str, run: Run, name: str, outcome: str, good: bool, bug: str = "") -> Line:
    return Line(NAMES[unit], way, run.where, name, run.rows, run.rows / run.seconds, outcome, good, bug)


def hunted(out: Path, bug: Bug) -> Line:
    """Plant one bug; the result says which kinds of cases of which set detected it."""
    try:
        for config in UNITS[bug.unit]:
            with tempfile.TemporaryDirectory() as work:
                sources = planted(bug, HERE, Path(work) / "kernels")
                run = WAYS[bug.way](out / f"{bug.unit}-{config}", Path(work), sources)
                kinds = _kinds(out / f"{bug.unit}-{config}", run)
            if kinds:
                return _line(
                    bug.unit, bug.way, run, f"{bug.unit}-{config}", f"caught by {', '.join(kinds)}", True, bug.what
                )
    except Absent as reason:
        return Line(NAMES[bug.unit], bug.way, "", bug.unit, 0, 0.0, f"skipped: {reason}", True, bug.what)
    except RuntimeError as reason:
        return Line(NAMES[bug.unit], bug.way, "", bug.unit, 0, 0.0, _ended(reason), False, bug.what)
    return _line(bug.unit, bug.way, run, bug.unit, "NOT CAUGHT", False, bug.what)


def _ended(reason: RuntimeError) -> str:
    """Result of a kernel without outputs: the last line that it printed."""
    return f"ended: {str(reason).strip().splitlines()[-1]}"


def _kinds(folder: Path, run: Run) -> list[str]:
    """Kinds of the rows that differ, with their number."""
    made = golden.load(folder)
    try:
        answer = answer_files.read(run.answers, made)
    except Refused as reason:
        return [f"an invalid output ({reason})"]
    if compare(made, answer).equal:
        return []
    wrong = {
        row
        for name, array in answer.arrays.items()
        for row in (made.arrays[name] != array).reshape(made.rows, -1).any(axis=1).nonzero()[0].tolist()
    }
    counts: dict[str, int] = {}
    for row in sorted(wrong):
        kind = made.entry(row)["kind"]
        counts[kind] = counts.get(kind, 0) + 1
    return [f"{kind} ({count})" for kind, count in counts.items()]


def report(lines: list[Line]) -> str:
    """The table for people."""
    wide = max(len("how it ran"), *(len(line.where) for line in lines))
    shown = [f"{'kernel':22} {'language':11} {'how it ran':{wide}} {'set':22} {'rows':>6} {'rows/s':>8}  result"]
    for line in lines:
        rate = f"{line.rows_per_second:8.2g}" if line.rows else f"{'':8}"
        outcome = line.outcome if not line.bug else f"{line.outcome}: {line.bug}"
        shown.append(
            f"{line.kernel:22} {line.way:11} {line.where:{wide}} {line.set:22} {line.rows or '':>6} {rate}  {outcome}"
        )
    return "\n".join(shown)


def limit(folder: Path) -> float:
    """Seconds in which the GPU's memory moves the inputs and outputs of a set once."""
    arrays = golden.load(folder).arrays
    return sum(array.nbytes for name, array in arrays.items() if name.startswith(("in.", "out."))) / host.bandwidth()


def timed(name: str, run: Run, folder: Path, device: str) -> str:
    """Line with the time of a kernel and, on a GPU, the limit of its memory."""
    shown = f"{name} on {run.where}: {run.rows} rows in {1e6 * run.seconds:,.0f} us"
    return f"{shown}, the memory's limit is {1e6 * limit(folder):,.1f} us" if device == "cuda" else shown


def compared(
    name: str, folder: Path, device: str, kernel: Callable[[Path], Run], ports: Sequence[str] | None = None
) -> bool:
    """Run a kernel, print equal or the diagnosis and its time; whether it is equal. ports: outputs that count."""
    try:
        with tempfile.TemporaryDirectory() as work:
            run = kernel(Path(work))
            difference = golden.diff(folder, run.answers, explain=True, ports=ports)
    except (Absent, Refused, RuntimeError) as reason:
        text = _ended(reason) if isinstance(reason, RuntimeError) else str(reason)
        print(f"{name}: {'skipped' if isinstance(reason, Absent) else 'not compared'}: {text}")
        return isinstance(reason, Absent)
    print(timed(name, run, folder, device), *(f"  {line}" for line in diff_text.lines(difference)), sep="\n")
    return difference.equal


def on_device(out: Path, device: str, owned: Sequence[str], ports: Sequence[str] | None = None) -> int:
    """The examples on a GPU, with `device` "cuda", and the user's kernels, UNIT:CONFIG=FILE; returns the exit code.

    ports: outputs of the user's kernels that count, by default those that they return.
    """
    if device == "cuda" and not host.gpu():
        print(
            "kernels: --device cuda: the NVIDIA driver (libcuda.so.1) finds no GPU; leave out --device to run in "
            "simulators",
            file=sys.stderr,
        )
        return 2
    good = True
    if device == "cuda":
        sets(out)
        for unit, configs in UNITS.items():
            for way, config in itertools.product(("numba.cuda", "Triton"), configs):
                folder = out / f"{unit}-{config}"
                good &= compared(f"{way} {folder.name}", folder, device, partial(WAYS[way], folder))
    for spec in owned:
        chosen, _, file = spec.partition("=")
        unit, config = units.choose(chosen)
        (summary,) = golden.generate(out, units=[f"{unit.name}:{config}"], kinds=KINDS, bin=True)
        folder, path = out / summary.name, Path(file).resolve()
        kernel = partial(own, path, folder, device=device)
        good &= compared(f"{path.name} {folder.name}", folder, device, kernel, ports)
    return int(not good)


def main() -> int:
    """Make the sets, run everything, print."""
    options = argparse.ArgumentParser(prog="python -m examples.kernels.run")
    options.add_argument("--out", default="out/kernels", help="where the golden sets go")
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options.add_argument("--device", choices=("cpu", "cuda"), help="cuda: kernels in numba.cuda and Triton on a GPU")
    options.add_argument("--own", action="append", default=[], metavar="UNIT:CONFIG=FILE", help="your kernel: own.py")
    options.add_argument("--ports", metavar="PORT,...", help="outputs of --own that count; default: those returned")
    arguments = options.parse_args()
    out = Path(arguments.out).resolve()
    if arguments.device == "cuda" or arguments.own:
        ports = arguments.ports.split(",") if arguments.ports else None
        return on_device(out, arguments.device or "cpu", arguments.own, ports)
    sets(out)
    lines = [
        held(out, way, unit, config)
        for unit, configs in UNITS.items()
        for way in WAYS
        if runs(way, unit)
        for config in configs
    ]
    lines += [hunted(out, bug) for bug in BUGS]
    print(json.dumps([asdict(line) for line in lines], indent=1) if arguments.json else report(lines))
    bad = [line for line in lines if not line.good]
    print(
        f"{len(bad)} of {len(lines)} failed" if bad else "every kernel that ran is equal, every bug was caught",
        file=sys.stderr,
    )
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"the compiler failed: {error}")
