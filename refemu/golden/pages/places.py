"""Places that implement a decision: functions marked with `@decides`, fields, other code that names its id."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import refemu

LEFT_OUT = ("refemu/golden/pages/", "refemu/cli/")  #: mention decisions and implement none
#: places that matter only if no other names an id: variants, and stimuli
LATER = ("/variants", "/cases.py")


@dataclass(frozen=True)
class Place:
    """One place that names a decision."""

    file: str  #: "refemu/units/olive/ovp_decoder/ovp_decoder.py"
    line: int
    name: str  #: "OvpDecoder.is_illegal", "HarmoniaConfig.prefill_window"; "" = the module's docstring


@cache
def of_decision(id: str, folders: tuple[Path, ...] = ()) -> tuple[Place, ...]:
    """Find the places that implement a decision.

    Parameters
    ----------
    id : str
        Decision.
    folders : tuple of Path
        Packages whose sources are searched; refemu's own by default.

    Returns
    -------
    tuple of Place
        By file and line. In a file with functions or fields that name the id, other mentions are left out; if
        `@decides` marks functions of units, so are all other places in units.
    """
    word = re.compile(rf"{re.escape(id)}(?!\d)")
    places = {
        place: marked
        for file, text in _sources(folders or (Path(refemu.__file__).parent,))
        if word.search(text)
        for place, marked in _of_file(file, text, word)
    }
    if any(places.values()):
        return tuple(place for place, marked in places.items() if marked or "/units/" not in place.file)
    return tuple(place for place in places if not any(part in place.file for part in LATER)) or tuple(places)


def _of_file(file: str, text: str, word: re.Pattern[str]) -> list[tuple[Place, bool]]:
    """Places of a file, and whether a mark names the id there."""
    spans = list(_spans(ast.parse(text), ""))
    places: dict[str, tuple[Place, bool]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if word.search(line):
            name = min((span for span in spans if span[0] <= number <= span[1]), key=_length, default=(0, 0, ""))[2]
            places.setdefault(name, (Place(file, number, name), line.lstrip().startswith("@decides(")))
    named = [place for name, place in places.items() if name]
    return named or list(places.values())


def _length(span: tuple[int, int, str]) -> int:
    return span[1] - span[0]


def _spans(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    """First and last line of every function, class and annotated field, a field's comment above it included."""
    end = getattr(node, "lineno", 0)
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.ClassDef):
            name = f"{prefix}{each.name}"
            first = min([each.lineno, *(mark.lineno for mark in each.decorator_list)])
            yield first, each.end_lineno or each.lineno, name
            yield from _spans(each, f"{name}.")
        elif isinstance(each, ast.AnnAssign | ast.Assign) and isinstance(node, ast.ClassDef | ast.Module):
            target = each.target if isinstance(each, ast.AnnAssign) else each.targets[0]
            if isinstance(target, ast.Name):
                first = end + 1 if isinstance(node, ast.ClassDef) else each.lineno
                yield first, each.end_lineno or each.lineno, f"{prefix}{target.id}"
        end = getattr(each, "end_lineno", None) or end


@cache
def _sources(folders: tuple[Path, ...]) -> tuple[tuple[str, str], ...]:
    paths = [(folder, path) for folder in folders for path in sorted(folder.rglob("*.py"))]
    named = [(f"{folder.name}/{path.relative_to(folder).as_posix()}", path) for folder, path in paths]
    return tuple((name, path.read_text("utf-8")) for name, path in named if not name.startswith(LEFT_OUT))
