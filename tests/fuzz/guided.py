"""Coverage-guided search for inputs that a reader does not survive, by atheris (libFuzzer).

    python -m tests.fuzz.guided FOLDER [--seconds S] [--seed N] [--only TARGET ...] [--keep]

Runs every target of targets.py for an equal part of S seconds of wall time, PROCESSES at a time, from its valid inputs,
tests/fuzz/corpus and what earlier runs left in FOLDER. An input that fails stays in FOLDER/TARGET/failed and is printed
with its error; exit code 1. --seed: 0 for a new one; by default a search begins as the one before. --keep writes small
inputs that reach new lines into tests/fuzz/corpus. --lines: how many lines of the instrumented modules the inputs of a
target reach.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
PROCESSES = 2
LONGEST = 1 << 16  #: bytes of an input
SLOWEST = 30  #: seconds of an input
MEMORY = 4096  #: MB of a process
STORED = 1 << 10  #: bytes of an input in the corpus, at most
EACH = 6  #: inputs of a target in the corpus, at most
ABSENT = "skipped: atheris has no build for this Python and system (extra fuzz)"
_STATS = re.compile(r"stat::number_of_executed_units: *(\d+)")


def main(words: Sequence[str]) -> int:
    """Search, and print a table; 1 if an input fails."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz.guided")
    options.add_argument("folder", type=Path)
    options.add_argument("--seconds", type=float, default=150)
    options.add_argument("--seed", default="1", metavar="N")
    options.add_argument("--only", nargs="+", metavar="TARGET")
    options.add_argument("--keep", action="store_true")
    options.add_argument("--child", help=argparse.SUPPRESS)
    options.add_argument("--lines", action="store_true")
    options.add_argument("--count", help=argparse.SUPPRESS)
    arguments = options.parse_args(words)
    if arguments.child:
        return _search(arguments.child, arguments.folder, int(arguments.seconds), arguments.seed)
    if arguments.count:
        return _print_lines(arguments.count, arguments.folder)
    try:
        import atheris  # noqa: F401
    except ImportError:
        print(ABSENT)
        return 0
    from tests.fuzz.targets import TARGETS

    if unknown := sorted(set(arguments.only or ()) - set(TARGETS)):
        options.error(f"--only: unknown target {', '.join(unknown)}; targets are {', '.join(TARGETS)}")
    names = arguments.only or list(TARGETS)
    seconds = max(3, arguments.seconds * PROCESSES / len(names))
    with ThreadPoolExecutor(PROCESSES) as pool:
        rows = list(pool.map(lambda name: _one(name, seconds, arguments), names))
    print("\n".join(row for row, _ in rows))
    failed = sum(count for _, count in rows)
    print(f"{len(rows)} targets, {failed} inputs failed")
    return int(failed > 0)


def _one(name: str, seconds: float, options: argparse.Namespace) -> tuple[str, int]:
    """Search for one target; a line of the table and the number of inputs that failed."""
    place = options.folder / name
    for part in ("inputs", "failed"):
        (place / part).mkdir(parents=True, exist_ok=True)
    ran = _python(str(place), "--child", name, "--seconds", str(round(seconds)), "--seed", options.seed)
    failed = sorted((place / "failed").iterdir())
    executed = _STATS.search(ran.stderr)
    if executed is None and not failed:  # the process ended in another way than by an error of the reader
        return f"{name:17} ended with {ran.returncode}: {ran.stderr[-2000:]}", 1
    if options.keep:
        _keep(name, place)
    lines = _python(str(place), "--count", name).stdout.strip() if options.lines else ""
    shown = "".join(f"\n  {path}: {_error(name, path)}" for path in failed)
    inputs = len(list((place / "inputs").iterdir()))
    return f"{name:17} {executed[1] if executed else '?':>9} runs {inputs:5} inputs  {lines}{shown}", len(failed)


def _python(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.fuzz.guided", *words]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def _error(name: str, path: Path) -> str:
    from tests.fuzz.targets import attempt

    with tempfile.TemporaryDirectory() as folder:
        return attempt(name, path.read_bytes(), Path(folder))[:2000] or "took too long, or too much memory"


def _search(name: str, place: Path, seconds: int, seed: str) -> int:
    """Search in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=sorted({each for listed in _modules().values() for each in listed})):
        from tests.fuzz import seeds
        from tests.fuzz.targets import attempt
    folder = Path(tempfile.mkdtemp(dir=place))
    for number, data in enumerate(seeds.initial()[name]):
        (place / "inputs" / f"valid-{number}").write_bytes(data)

    def run(data: bytes) -> None:
        if said := attempt(name, data, folder):
            raise AssertionError(said)

    folders = [str(place / "inputs"), *([str(CORPUS / name)] if (CORPUS / name).is_dir() else [])]
    settings = [
        f"-seed={seed}",
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MEMORY}",
    ]
    settings += [f"-artifact_prefix={place / 'failed'}/", "-print_final_stats=1", "-len_control=0"]
    atheris.Setup(["guided", *settings, *folders], run, enable_python_coverage=True)
    atheris.Fuzz()
    return 0


def _modules() -> dict[str, list[str]]:
    """Modules with readers by target, without an import. None has compiled kernels: numba rejects instrumented code."""
    source = Path(__file__).with_name("targets.py").read_text()
    found = re.findall(r"^@_target\((.*)\)\ndef (\w+)", source, re.MULTILINE)
    return {name: re.findall(r'"(.*?)"', listed) for listed, name in found}


def _print_lines(name: str, place: Path) -> int:
    """Print how many lines of a target's modules an import and its inputs reach."""
    import coverage

    modules = _modules()[name]
    files = [str(importlib.util.find_spec(each).origin) for each in modules]  # type: ignore[union-attr]
    watch = coverage.Coverage(data_file=None, include=files)
    watch.start()
    from tests.fuzz.targets import attempt

    with tempfile.TemporaryDirectory() as folder:
        for path in (*(place / "inputs").iterdir(), *(CORPUS / name).glob("*")):
            attempt(name, path.read_bytes(), Path(folder))
    watch.stop()
    parts = []
    for module, file in zip(modules, files, strict=True):
        _, lines, _, missed, _ = watch.analysis2(file)
        parts.append(f"{module.removeprefix('refemu.')} {len(lines) - len(missed)}/{len(lines)}")
    print(", ".join(parts))
    return 0


def _keep(name: str, place: Path) -> None:
    """Write the smallest found inputs with new coverage into the corpus."""
    found = [path for path in (place / "inputs").iterdir() if not path.name.startswith("valid-")]
    small = sorted((path for path in found if path.stat().st_size <= STORED), key=lambda path: path.stat().st_size)
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    for path in small[-EACH:]:
        (CORPUS / name / path.name[:8]).write_bytes(path.read_bytes())


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
