"""Meanings of the fields of a class, from the `#:` comments of its source: what a reader of the code reads."""

import ast
import inspect
import io
import textwrap
import tokenize
from functools import cache
from typing import Any

MARK = "#:"


@cache
def of_class(kind: type[Any]) -> dict[str, str]:
    """Extract the comment of each annotated field, those of base classes included.

    A field's comment stands behind it, or in whole lines before it, or both.

    Parameters
    ----------
    kind : type
        Class; one whose source cannot be read has no comments.

    Returns
    -------
    dict of str
        By field, in the order of the source; a field without a comment is left out.
    """
    meanings: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if "__annotations__" in vars(each) and each.__module__ != "builtins":
            meanings.update(_of_source(_source(each)))
    return meanings


def _source(kind: type[Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # of a session, or of compiled code alone
        return "class Unknown: ..."


def _of_source(source: str) -> dict[str, str]:
    behind, before = _comments(source)
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    meanings = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines: list[str] = []
            line = node.lineno - 1
            while line in before:
                lines.insert(0, before[line])
                line -= 1
            text = " ".join([*lines, *filter(None, [behind.get(node.end_lineno or node.lineno)])])
            if text:
                meanings[node.target.id] = text
    return meanings


def _comments(source: str) -> tuple[dict[int, str], dict[int, str]]:
    """Marked comments by line: those behind code, and those that fill a line."""
    behind: dict[int, str] = {}
    before: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and token.string.startswith(MARK):
            whole = token.line[: token.start[1]].isspace() or token.start[1] == 0
            (before if whole else behind)[token.start[0]] = token.string[len(MARK) :].strip()
    return behind, before
