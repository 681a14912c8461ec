"""Schedules by hand: nothing, tiles and operations overlap; engines and the port serve one operation at a time."""

import dataclasses
from fractions import Fraction

import pytest

from refemu.arith.checks import Refused
from refemu.models.machine import Overlap, System, Work, placed
from refemu.models.machine.schedule import length

SYSTEM = System("a machine", 10**9, Fraction(4), 1, "operations")


def work(name: str, engine: str, cycles: int | None, size: int = 0, **more: object) -> Work:
    """An operation of one engine that moves `size` bytes."""
    moved = {"weights": 8 * size} if size else {}
    return Work(name, "linear", {engine: cycles or 0}, cycles, bits=moved, **more)  # type: ignore[arg-type]


def starts(works: list[Work], overlap: Overlap = "operations") -> dict[str, tuple[int, int]]:
    """Starts and ends by name."""
    line = placed(works, dataclasses.replace(SYSTEM, overlap=overlap))
    return {each.work.name: (each.start, each.end) for each in line}


def test_nothing_overlaps_loads_before_work() -> None:
    works = [work("a", "x", 10, 20), work("b", "y", 3, 40)]

    assert starts(works, "none") == {"a": (0, 15), "b": (15, 28)}
    assert starts(works, "tiles") == {"a": (0, 10), "b": (10, 20)}


def test_softmax_of_next_head_overlaps_values() -> None:
    """[kllm §IV-A] three heads; both products share an engine, and the first that can start starts."""
    works = []
    for head in range(3):
        works += [work(f"l{head}", "lanes", 10, after=())]
        works += [work(f"s{head}", "functional", 8, after=(f"l{head}",))]
        works += [work(f"c{head}", "lanes", 5, after=(f"s{head}",))]

    assert starts(works) == {
        "l0": (0, 10),
        "s0": (10, 18),
        "l1": (10, 20),
        "c0": (20, 25),
        "s1": (20, 28),
        "l2": (25, 35),
        "c1": (35, 40),
        "s2": (35, 43),
        "c2": (43, 48),
    }
    assert length(placed(works, dataclasses.replace(SYSTEM, overlap="tiles"))) == 69


def test_transfers_follow_each_other_on_the_port() -> None:
    works = [work("a", "x", 1, 40, after=()), work("b", "y", 1, 40, after=())]

    assert starts(works) == {"a": (0, 10), "b": (0, 20)}


def test_stream_reader_starts_and_ends_after_source() -> None:
    """The reader starts 3 cycles after the start, and ends at least 4 after the end."""
    source = work("a", "x", 20, after=())

    assert starts([source, work("b", "y", 5, after=(), streams={"a": (3, 4)})])["b"] == (3, 24)
    assert starts([source, work("b", "y", 30, after=(), streams={"a": (3, 4)})])["b"] == (3, 33)


def test_operations_without_a_clock_pass_their_operands_on() -> None:
    works = [work("a", "x", 20, after=()), work("b", "y", None, after=("a",)), work("c", "y", 5, after=("b",))]

    assert starts(works) == {"a": (0, 20), "c": (20, 25)}


@pytest.mark.parametrize(
    ("works", "message"),
    [
        ([work("a", "x", 1), work("a", "x", 1)], "different names, got a twice"),
        ([work("a", "x", 1, after=("b",))], "a must read the results of operations before it, got b"),
    ],
)
def test_unknown_and_equal_names_are_rejected(works: list[Work], message: str) -> None:
    with pytest.raises(Refused, match=message):
        placed(works, SYSTEM)
