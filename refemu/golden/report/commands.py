"""Commands that reproduce a part of a regression."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from refemu.golden.compare.diff import Difference, Mismatch
from refemu.golden.files.sets import Golden
from refemu.golden.report import places

_TEST = re.compile(r"counterexample of (\S.*)")


@dataclass(frozen=True)
class Command:
    """A command and its purpose."""

    run: str  #: for a shell
    why: str  #: what it shows


def of_answer(folder: Path, answer: Path, ports: tuple[str, ...] | None) -> Command:
    """Commands that compare an answer. folder: of the set. ports: compared ports; None for all."""
    some = ["--ports", ",".join(ports)] if ports else []
    return _command("the difference, and what the device did", "refemu", "diff", folder, answer, "--explain", *some)


def of_case(folder: Path, golden: Golden, first: Mismatch) -> Command:
    """Commands that step through the case of a difference. folder: of the set."""
    case = f"{folder}:{first.id}"
    return _command("the case event by event", "refemu", "step", golden.manifest["unit"], "--case", case)


def of_bench(bench: Path, folder: Path) -> Iterator[Command]:
    """Commands that run a testbench. folder: of the set."""
    vectors = [] if folder.parent == bench else [f"VEC={folder.resolve()}"]
    yield _command("every row that differs", "make", "-C", bench, "ARGS=+ALL", *vectors)
    yield _command("all answers, and what the device did", "make", "-C", bench, "diff", *vectors)


def of_set(golden: Golden, again: str = "again") -> Iterator[Command]:
    """Commands that regenerate a set, or run the test that saved it. again: folder for the set."""
    if places.is_counterexample(golden):
        for case in golden.manifest["cases"]:
            if test := _TEST.fullmatch(case["why"]):
                yield _command("the test", "pytest", test[1])
        return
    generator = golden.manifest["generator"]
    if "model" in generator:
        return  # the manifest describes the run of the model
    name, random = f"{golden.manifest['unit']}:{golden.config}", generator.get("random", {})
    words = ["generate", "-o", again, "--unit", name]
    if random.get("seeds", 1) > 1:
        rows = places.rows_by_kind(golden)["random"]
        yield _command("the shard from its seeds", "refemu", *words, "--cases", rows, "--seed", random["seed"])
        return
    forms = [f"--{form}" for form in ("hex", "bin") if golden.manifest[form]]
    words += ["--kinds", ",".join(sorted(set(generator) - {"fault"})), "--seed", golden.manifest["seed"], *forms]
    if "fault" in generator:
        words += ["--complete", ",".join(generator["fault"]["classes"])]
        words += ["--prove", generator["fault"]["prove"]] * bool(generator["fault"]["prove"])
    yield _command("the set from its seed", "refemu", *words)


def all_of(
    folder: Path, golden: Golden, answer: Path | None, difference: Difference, bench: Path | None
) -> tuple[Command, ...]:
    """All commands for a difference. answer: its file, None for a log."""
    commands = []
    if answer is not None:
        every = {f"out.{places.port(name)}" for name in golden.arrays if places.is_output(name)}
        some = tuple(places.port(name) for name in difference.compared if places.is_output(name))
        partial = len(some) < len(every)
        commands.append(of_answer(folder, answer, some if partial else None))
    if difference.first:
        commands.append(of_case(folder, golden, difference.first))
    return (*commands, *(of_bench(bench, folder) if bench else ()))


def _command(why: str, *words: object) -> Command:
    return Command(shlex.join(map(str, words)), why)
