"""Meanings of the fields of a class, from the `#:` comments of its source."""

import re
import sys
from collections.abc import Iterator
from functools import cache
from linecache import getlines
from typing import Any

_FIELD = re.compile(r"    (\w+):(?!:)")
_COMMENT = re.compile(r"(?:^|[^\"'])#: *(.*)$")


@cache
def of_class(kind: type[Any]) -> dict[str, str]:
    """Extract the comment of each annotated field, including those of base classes, in the order of the source.

    A field's comment is on its last line, on the lines before it, or both. Fields without one are left out, also those
    of a class whose source cannot be read.
    """
    fields = getattr(kind, "__dataclass_fields__", {}).values()
    meanings = {field.name: field.metadata["meaning"] for field in fields if "meaning" in field.metadata}
    for each in reversed(kind.__mro__):
        if "__annotations__" in vars(each) and each.__module__ != "builtins":
            meanings.update(_of_body(_body(each), vars(each)["__annotations__"]))
    return meanings


def _body(kind: type[Any]) -> Iterator[str]:
    """Lines of the class, without its head; parsed by line, since a syntax tree takes ten times as long."""
    lines = iter(getlines(getattr(sys.modules.get(kind.__module__), "__file__", None) or ""))
    head = re.compile(rf"class {re.escape(kind.__qualname__)}\b")
    for line in lines:
        if head.match(line):
            break
    for line in lines:
        if line[:1] not in (" ", "\n", ")"):
            return
        yield line.rstrip()


def _of_body(lines: Iterator[str], names: dict[str, Any]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    before: list[str] = []
    name = ""
    for line in lines:
        field, comment = _FIELD.match(line), _COMMENT.search(line)
        whole = comment is not None and line.lstrip().startswith("#:")
        if field and field[1] in names:
            name = field[1]
            meanings[name] = " ".join(before)
        elif not line or (line[:4].isspace() and line[4:5].isalpha()):
            name = ""  # the field's value has ended
        if whole:
            before.append(comment[1])  # type: ignore[index]
            name = ""
            continue
        before = []
        if comment and name:
            meanings[name] = f"{meanings[name]} {comment[1]}".lstrip()
    return {name: text for name, text in meanings.items() if text}
