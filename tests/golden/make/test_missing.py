"""Units that a request names without cases are rejected, each with a reason."""

from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.golden.make import generate, model_cases
from refemu.golden.make.model_cases import Source
from tests.golden import fakes

RUN = Source("toy", "0", "some-scheme", {}, "1", 0, 3, (1, 2, 3))
BLENDER, METER = fakes.UNITS["blender"], fakes.UNITS["meter"]


def targets(*units: Any) -> list[generate.Target]:
    return [(unit, config, None) for unit in units for config in unit.configs]


def test_units_with_cases_are_accepted() -> None:
    generate.require_cases([BLENDER], targets(BLENDER), ["paper"], 0, [], [])
    generate.require_cases([BLENDER], targets(BLENDER), ["model"], 0, [("blender", "wrap")], [RUN])


@pytest.mark.parametrize(
    ("tapped", "reason"),
    [
        ((), "no cases of kind model; scheme some-scheme does not tap it"),
        (("blender",), "3 tokens of toy under scheme some-scheme bring nothing to its ports"),
    ],
)
def test_reason_names_the_run(monkeypatch: pytest.MonkeyPatch, tapped: tuple[str, ...], reason: str) -> None:
    monkeypatch.setattr(model_cases, "tapped_units", lambda run: tapped)

    with pytest.raises(Refused, match=f"got none for 1 of 1; nothing was written:\n  blender: .*{reason}"):
        generate.require_cases([BLENDER], targets(BLENDER), ["model"], 0, [], [RUN])


def test_every_unit_has_a_line() -> None:
    """A unit without a requested configuration has one too."""
    with pytest.raises(Refused) as error:
        generate.require_cases([BLENDER, METER], targets(METER), ["model"], 0, [], [])

    assert str(error.value).split("\n")[1:] == [
        "  blender: none of its configurations is requested: wrap, saturate",
        "  meter: no cases of kind model",
    ]
