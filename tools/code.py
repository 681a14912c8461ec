"""Digests of what Python files compute: comments, docstrings and annotations of arguments and results do not count.

A page of measured results stays good when a sentence changes, and only then.
"""

import ast
import functools
import hashlib
from pathlib import Path

TYPES = ("annotation", "returns")  #: fields of the syntax tree that functions do not read; those of classes they may


def digest(path: Path) -> str:
    """Digest of the code of a file: 64 hex digits, the same in every Python."""
    return _digest(path.read_text())


@functools.cache  # modules of the fault library stand behind every set
def _digest(text: str) -> str:
    return hashlib.sha256(repr(_shape(ast.parse(text))).encode()).hexdigest()


def _shape(node: object) -> object:
    """A syntax tree as nested tuples, without what is empty: newer Pythons add such fields."""
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
