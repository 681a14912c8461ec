"""Digests of the code of Python files, without comments, docstrings and annotations of arguments and results.

A page of measured results is stale after a change of code, not of a sentence.
"""

import ast
import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TYPES = (
    "annotation",
    "returns",
)  #: fields of the syntax tree that cannot change a function's result (a class's fields can)


def digest(path: Path) -> str:
    """Digest of the code of a file: 64 hex digits, the same in every Python."""
    return _digest(path.read_text())


def of_set(manifest: Mapping[str, Any]) -> str:
    """Digest of the arrays and cases of a set: 64 hex digits. Meanings and descriptions do not count."""
    arrays = [(each["name"], each["sha256"]) for each in manifest["arrays"]]
    cases = [(each["kind"], each["first"], each["cases"], each["rows"]) for each in manifest["cases"]]
    return hashlib.sha256(repr((manifest["unit"], manifest["config"], arrays, cases)).encode()).hexdigest()


@functools.cache  # every set depends on modules of the fault library
def _digest(text: str) -> str:
    return hashlib.sha256(repr(_shape(ast.parse(text))).encode()).hexdigest()


def _shape(node: object) -> object:
    """A syntax tree as nested tuples without empty parts: newer Pythons add such fields."""
    if isinstance(node, list):
        return tuple(_shape(each) for each in node if not _sentence(each))
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, value) for name, value in ast.iter_fields(node) if name != "type_comment")
    if isinstance(node, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef)):
        fields = ((name, value) for name, value in fields if name not in TYPES)
    return (type(node).__name__, *((name, _shape(value)) for name, value in fields if value not in (None, [])))


def _sentence(node: object) -> bool:
    """Whether a statement is a bare string."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
