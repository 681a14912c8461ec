"""Scaffold of a package with one unit, which its author replaces."""

import ast
import keyword
import os
import re
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from refemu import scratch, units
from refemu.arith.checks import Refused
from refemu.golden.rtl import keywords

#: file of the package -> its text; @NAME@ in either is the name of the unit
FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md",
    "src/refemu_@NAME@/__init__.py": "init.py.txt",
    "src/refemu_@NAME@/py.typed": "",
    "src/refemu_@NAME@/decisions.md": "decisions.md",
    "src/refemu_@NAME@/@NAME@.py": "unit.py.txt",
    "src/refemu_@NAME@/cases.py": "cases.py.txt",
    "src/refemu_@NAME@/variants.py": "variants.py.txt",
    "tests/oracle_@NAME@.py": "oracle.py.txt",
    "tests/test_@NAME@.py": "test_unit.py.txt",
}
_NAME = re.compile(r"[a-z]+(_?[a-z0-9]+)*")


def files(name: str) -> dict[str, bytes]:
    """Paths and contents of a package with the unit `name`.

    Refused: a name other than a lower-case word of letters, digits and single underscores, a name of refemu's units, or
    one that would hide another name of the package.
    """
    if not _NAME.fullmatch(name) or len(name) > 40:
        raise Refused(
            f"new-unit: a name must be a lower-case word of at most 40 letters, digits and _, got {name[:60]!r}"
        )
    if keyword.iskeyword(name) or name in keywords.SYSTEMVERILOG or name in keywords.C:
        raise Refused(f"new-unit: a name must not be a keyword of Python, SystemVerilog or C, got {name!r}")
    if name in units.names() or name == "refemu":
        raise Refused(
            f"new-unit: a name must differ from refemu and the names of its units, got {name!r}; choose another name"
        )
    words = _words(name)
    _require_own_names(name, words["@CLASS@"])
    return {_filled(path, words): _text(text, words) for path, text in FILES.items()}


def _words(name: str) -> dict[str, str]:
    """Replacements of the marks in the texts."""
    return {
        "@NAME@": name,
        "@DASHED@": name.replace("_", "-"),
        "@CLASS@": "".join(part.capitalize() for part in name.split("_")),
        "@LETTERS@": re.sub(r"[^a-z]", "", name),
    }


def _require_own_names(name: str, class_name: str) -> None:
    """Reject a unit whose module or class would hide another name of the package."""
    if name in ("cases", "variants", "compiled"):
        raise Refused(f"new-unit: a name must not be that of another module of the package, got {name!r}")
    if class_name in set(_names_beside_the_class()) or keyword.iskeyword(class_name):
        raise Refused(f"new-unit: the unit's class must not hide a name of its module, got {class_name} for {name!r}")


def _names_beside_the_class() -> Iterator[str]:
    """Names that the modules with the unit's class use or bind."""
    words = _words("my_block") | {"@CLASS@": "_"}
    for text in FILES.values():
        if "@CLASS@" in _text(text, {}).decode():
            for node in ast.walk(ast.parse(_text(text, words))):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.alias):
                    yield node.asname or node.name
                elif isinstance(node, ast.ClassDef):
                    yield node.name


def write(name: str, folder: Path) -> list[Path]:
    """Write the package into a new or empty `folder`; returns its files.

    The files are written next to it, then renamed: a new folder appears complete or not at all. An empty folder, which
    may be the current one, gets its entries one by one; an error removes them again.
    """
    contents = files(name)
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{folder}: must be a new or an empty folder; nothing was written")
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        scratch.sweep(folder.absolute().parent, re.compile(rf"\.{name}\.new-[0-9a-f]+"))
        with scratch.folder(folder.absolute().parent, f".{name}.new-") as fresh:
            package = fresh / "package"
            for path, data in contents.items():
                (package / path).parent.mkdir(parents=True, exist_ok=True)
                (package / path).write_bytes(data)
            _move(package, folder)
    except OSError as error:
        raise Refused(f"{error.filename or folder}: {error.strerror or error}; nothing was written") from None
    return [folder / path for path in contents]


def _move(package: Path, folder: Path) -> None:
    """Rename a folder to `folder`, which is missing or empty. OSError: nothing was renamed."""
    if not folder.exists():
        package.rename(folder)
        return
    moved = list[Path]()
    try:
        for entry in sorted(package.iterdir()):
            moved.append(entry.rename(folder / entry.name))
    except BaseException:
        for entry in moved:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        raise


def _text(name: str, words: dict[str, str]) -> bytes:
    if not name:
        return b""
    text = resources.files(__package__).joinpath("texts", name).read_text("utf-8")
    return _filled(text, words).encode()


def _filled(text: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text
