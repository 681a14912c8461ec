"""A wrong unit is noticed by the operation that it carries, and by no other."""

import pytest

from refemu.models import machine
from tests.models.machine import wrong
from tests.models.schemes.leankv.machine.small import SMALL


@pytest.mark.parametrize(
    ("unit", "port", "names"),
    [
        ("significance", "share", ["significance"]),
        ("kv_quantizer", "scale", ["high.key", "high.value", "low.key", "low.value"]),
        ("kv_compressor", "high", ["pages"]),
        ("page_manager", "free", ["allocation"]),
        ("page_manager", "used", ["allocation"]),
    ],
)
def test_a_wrong_lane_is_noticed(unit: str, port: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    right = machine.run("tiny", SMALL, 2, 24)
    wrong.answers(monkeypatch, unit, port)

    report = machine.run("tiny", SMALL, 2, 24)

    assert right.differing == 0
    assert [operation.name for operation in report.operations if operation.differing] == [f"blk.2.{n}" for n in names]


def test_a_wrong_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong.answers(monkeypatch, "prompt_compressor", "order")
    report = machine.run("tiny", SMALL, 0, 24)

    assert [operation.name for operation in report.operations if operation.differing] == ["blk.0.classes"]
