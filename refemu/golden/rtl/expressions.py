"""Verilog expressions of a port map: their names, and the scope of these."""

import re
from collections.abc import Iterator, Mapping

from refemu.arith.checks import Refused
from refemu.golden.rtl.keywords import SYSTEMVERILOG

_TOKEN = re.compile(
    r"""(?P<skip>`\w+ | \$\w+ | \d*'[sS]?[bodhBODH][\da-fA-FxXzZ?_]+ | '[01xXzZ](?!\w) | \w+\s*::\s*\w+ | \.\s*\w+ |
        [A-Za-z_]\w*(?=\s*'\s*\() | \d\w*)
      | (?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_SLICE = re.compile(r"([A-Za-z_]\w*)\s*\[\s*(\d+)\s*(?:(:|\+:|-:)\s*(\d+)\s*)?\]")
#: their width follows from their connection
_OPEN_ENDED = re.compile(r"'[01xXzZ]|\d+|'\s*\{.*\}", re.DOTALL)


def is_plain(text: str) -> bool:
    """Whether an expression is just the name of a port, and not a keyword."""
    return _PLAIN.fullmatch(text) is not None and text not in SYSTEMVERILOG


def has_width(text: str) -> bool:
    """Whether an expression has its own width, unlike `'0` and assignment patterns."""
    return _OPEN_ENDED.fullmatch(text.strip()) is None


def require_expression(text: object, thing: str) -> str:
    """An expression for a generated source. Refused: other values, quotes, comments and semicolons."""
    if not isinstance(text, str) or not text.strip():
        raise Refused(f'{thing}: must be a Verilog expression as a string, such as "{{b, a}}" or "3\'d0", got {text!r}')
    bad = next((part for part in ('"', "\\", ";", "//", "/*", "\n") if part in text), "")
    if bad or not text.isascii():
        raise Refused(f"{thing}: must be one expression in ASCII without {bad!r}, got {text!r}")
    if not _is_balanced(text):
        raise Refused(f"{thing}: brackets must close in order, got {text!r}")
    if re.fullmatch(r"\d+", text.strip()):
        raise Refused(
            f"{thing}: a constant must have its width, such as 3'd{text.strip()}, or be '0 or '1, got {text!r}"
        )
    return text.strip()


def _is_balanced(text: str) -> bool:
    """Whether brackets are balanced; otherwise an expression would close its surroundings."""
    open_ = list[str]()
    for character in text:
        if character in "([{":
            open_.append(")]}"["([{".index(character)])
        elif character in ")]}" and (not open_ or open_.pop() != character):
            return False
    return not open_


def names(text: str) -> Iterator[str]:
    """The names in an expression that belong to its scope, without fields, constants, packages, types and macros."""
    return (match["name"] for match in _TOKEN.finditer(text) if match["name"])


def scoped(text: str, scope: str) -> str:
    """The expression with its names looked up in `scope`."""
    return _TOKEN.sub(lambda match: f"{scope}.{match['name']}" if match["name"] else match[0], text)


def require_slices(text: str, bits: Mapping[str, int], thing: str) -> None:
    """Reject a constant slice beyond its port. bits: of every port that the expression may name."""
    for name, first, kind, second in _SLICE.findall(text):
        ends = {int(first)} | {"": set(), ":": {int(second or 0)}}.get(kind, {_end(kind, int(first), int(second or 1))})
        if name in bits and not all(0 <= end < bits[name] for end in ends):
            raise Refused(f"{thing}: a slice of {name} must be in bits {bits[name] - 1} to 0, got {text!r}")


def _end(kind: str, first: int, width: int) -> int:
    return first + width - 1 if kind == "+:" else first - width + 1
