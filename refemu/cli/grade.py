"""`refemu grade`: inject faults, and report which ones a stimulus detects or misses."""

import argparse
import dataclasses
from pathlib import Path
from time import perf_counter
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli.output import print_json, print_table

WORDS = {"raised": "untested"}  #: printed results of faults
SHOWN = 20  #: faults of a class that the table lists; --json has all


def run(arguments: argparse.Namespace) -> int:
    """Print the coverage; return 0 if each class reaches its gate, with --strict if no fault is left, else 1."""
    from refemu import golden
    from refemu.golden.files import origin, store
    from refemu.golden.grade import answers, entry
    from refemu.golden.report import coverage, grades

    classes = [name for part in arguments.classes for name in part.split(",")] if arguments.classes else None
    if arguments.all and "model" not in (classes or ()):
        raise Refused("grade: --all needs --class model; all faults of the other classes are always tried")
    how = {"missing": arguments.write_missing, "every": arguments.all, "prove": arguments.prove or 0}
    if arguments.write_missing:
        store.sweep(Path(arguments.write_missing))
    start = perf_counter()
    if arguments.unit:
        result = entry.grade_stimulus(arguments.stimulus, arguments.unit, arguments.config, classes, **how)
    elif arguments.config:
        raise Refused("grade: --config needs --unit; a set names its own configuration")
    else:
        result = entry.grade_set(arguments.stimulus, classes, **how)
    completed = {} if arguments.unit else coverage.completions(answers.of_set(golden.load(arguments.stimulus)))
    source = None if arguments.unit else origin.of(arguments.stimulus)
    missed = any(counts.missed for counts in result.classes.values())
    if arguments.json:
        more = {"origin": source and dataclasses.asdict(source), "seconds": round(perf_counter() - start, 3)}
        print_json("grade", {**grades.document(result), "completed": completed, **more})
    else:
        _print(result)
        _counted("rows that complete an operation", "kind", completed)
        if missing := coverage.uncompleted(completed):
            print(f"{result.unit}: {missing}")
        if source and not source.known:
            print(source.sentence(arguments.stimulus))
    if arguments.write_missing and not arguments.json:
        name = result.set if not arguments.unit else _set_name(arguments.unit, arguments.config)
        print(
            f"{arguments.write_missing}/{name}: detects every missed fault"
            if missed
            else "no fault is missed; nothing was written"
        )
    undecided = any(counts.undecided for counts in result.classes.values())
    return int(not result.passes or (arguments.strict and (undecided or missed)))


def _set_name(unit: str, config: str | None) -> str:
    from refemu import units
    from refemu.units import parameters

    return parameters.set_name(*units.choose(unit, config))


def _print(result: Any) -> None:
    rows = [(klass, *dataclasses.astuple(counts), _percent(counts.grade)) for klass, counts in result.classes.items()]
    numbers = ("faults", "detected", "missed", "equivalent", "undecided", "untested", "coverage")
    others = f", and all {result.inputs} inputs" * bool(result.inputs)
    title = f"{result.set}: {result.rows} rows{others}"
    print_table(title, ("class", *numbers), rows, numbers)
    seen = ("bits", "0", "1", "rising", "falling")
    print_table("toggled bits", ("output or register", *seen), _toggles(result.toggle, seen), seen)
    _counted("rows that detect a variant of a decision", "decision", result.decisions)
    _counted("flags", "flag", {name: rows for name, rows in result.flags.items() if "+" not in name})
    _together({name: rows for name, rows in result.flags.items() if "+" in name})
    for klass in result.classes:
        survivors = [survivor for survivor in result.survivors if survivor.klass == klass]
        for survivor in survivors[:SHOWN]:
            word = WORDS.get(survivor.outcome, survivor.outcome)
            print(f"{word:10}  {klass:9}  {survivor.fault}; {survivor.reason}")
            if survivor.row is not None:
                print(f"            shown by {'  '.join(_port(name, words) for name, words in survivor.row.items())}")
        if len(survivors) > SHOWN:
            print(f"            {klass:9}  and {len(survivors) - SHOWN} more; --json has all")


def _counted(title: str, what: str, rows: Any) -> None:
    """Print a table of rows by name, if there are any."""
    if rows:
        print_table(title, (what, "rows"), list(rows.items()), ("rows",))


def _together(pairs: Any) -> None:
    """Print which pairs of flags occur together in a row, if there are two flags."""
    never = [name for name, rows in pairs.items() if not rows]
    if pairs:
        print(f"{len(pairs) - len(never)} of {len(pairs)} pairs of flags occur together in a row")
    if never:
        print(f"never together: {', '.join(never[:SHOWN])}{', ...' * (len(never) > SHOWN)}")
    if pairs:
        print()


def _toggles(table: Any, seen: Any) -> list[tuple[Any, ...]]:
    return [(name, *(counts[column] for column in seen)) for name, counts in table.items()]


def _port(name: str, words: Any) -> str:
    last = words[-1] if len(words[-1]) <= 40 else words[-1][:37] + "..."
    return f"{name} {last}" + (f" (event {len(words) - 1})" if len(words) > 1 else "")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
