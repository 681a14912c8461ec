"""Decisions are marked at the functions that take them, and the marks are where variants differ."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from refemu import units
from refemu.units import decides
from refemu.units.variant import Variant

DECISION = re.compile(r"D-[a-z]+-\d+")


def function(member: Any) -> Any:
    """The function of a method, a property or a constant."""
    return getattr(member, "fget", None) or getattr(member, "func", None) or member


def overridden(variant: type) -> Iterator[tuple[str, Any]]:
    """Members of the unit's own classes that a variant overrides, by name."""
    own = [each for each in variant.__mro__ if not {"variant", "variants"} & {*each.__module__.split(".")}]
    for each in set(variant.__mro__) - set(own):
        for name in vars(each):
            found = next((vars(base)[name] for base in own if name in vars(base)), None)
            if found is not None and (name == "__init__" or not name.startswith("__")):
                yield name, function(found)


def is_marked(choice: Variant) -> bool:
    """Whether a variant overrides a function with its mark, or what builds the parts of a composed unit.

    One that changes inputs before the unit sees them, in `_open`, has the mark anywhere in the unit.
    """
    variant, members = choice.unit_class, dict(overridden(choice.unit_class or type))
    builds = [name for name in members if hasattr(inspect.getattr_static(variant, name), "func")]
    if "__init__" in members or builds or not all(map(inspect.isfunction, members.values())):
        return True
    if "_open" in members:
        members = {name: function(inspect.getattr_static(variant, name)) for name in dir(variant)}
    return any(choice.decision in getattr(each, "decisions", ()) for each in members.values())


@pytest.mark.parametrize("name", units.names())
def test_variants_override_functions_with_their_mark(name: str) -> None:
    choices = [each for each in units.find(name).variants if each.unit_class and DECISION.fullmatch(each.decision)]

    assert [(each.decision, each.unit_class) for each in choices if not is_marked(each)] == []


def test_a_mark_returns_the_function_itself() -> None:
    def rounded(value: int) -> int:
        return value

    assert decides("D-word-1", "D-word-2")(rounded) is rounded
    assert vars(rounded)["decisions"] == ("D-word-1", "D-word-2")
