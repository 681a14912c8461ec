"""A result is computed once for an object, and again for another object of its name."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from refemu import units
from refemu.golden.pages import parameters, state
from refemu.golden.pages.named_caches import following
from tests.plugin_distribution import CLIPPER


def test_function_is_called_once_per_object() -> None:
    things, calls = {"a": [1], "b": [1]}, []

    @following(things.__getitem__)
    def described(name: str, thing: list[int]) -> str:
        calls.append(name)
        return f"{name}{thing}"

    assert [described("a"), described("a"), described("b")] == ["a[1]", "a[1]", "b[1]"] and calls == ["a", "b"]
    things["a"] = [1]  # equal, but a different object
    assert described("a") == "a[1]" and calls == ["a", "b", "a"]


def register(source: str) -> None:
    """Register the unit of a module's source."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(source, space)
    units.register(space["UNIT"])


@pytest.mark.parametrize(
    ("table", "word"), [(parameters.of_unit, "bits"), (parameters.ports, "value"), (state.of_unit, "operations")]
)
def test_replaced_unit_is_described_again(table: Callable[[str], Mapping[str, object]], word: str) -> None:
    try:
        register(CLIPPER)
        before = list(table("clipper"))
        register(CLIPPER.replace(word, "renamed"))

        assert word in before
        assert list(table("clipper")) == ["renamed" if name == word else name for name in before]
    finally:
        units.unregister("clipper")
