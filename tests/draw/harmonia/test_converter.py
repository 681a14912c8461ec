"""The converter: exponents, maxima and what leaves are those of the registers, in every clock."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refemu import units
from tests.draw.shapes import about, boxes, texts, tree

UNIT = units.find("bfp_converter")
CONFIG = UNIT.config("paper")


def run(kind: str, block: int, case: int = 0) -> Iterator[tuple[Any, str]]:
    cases = list(UNIT.stimuli(CONFIG, kind, 0))[block]
    for state in UNIT.trace(CONFIG, {port: array[case] for port, array in cases.inputs.items()}):
        yield state, UNIT.draw(CONFIG, state)


def exponents(svg: str, name: str) -> np.ndarray:
    """Texts in the boxes of a bank, row by row; "" for an empty box."""
    rows = about(svg, f"{name}, element")
    by_row = [[box for box in rows if box.about.split(",")[1] == f" element {row}"] for row in range(32)]
    return np.array([" ".join(box.text for box in row).strip() for row in by_row])


def words_of(bank: Any, first: int) -> list[str]:
    """The same from the registers: elements down, eight groups from `first` across."""
    found = np.full((32, 16), "", object)
    for number, (words, valid) in enumerate(zip(bank.words, bank.valid, strict=True)):
        texts = [str(word >> 10 & 31) if valid >> lane & 1 else "·" for lane, word in enumerate(words)]
        if bank.kind:
            found[8 * (number // 16) : 8 * (number // 16) + 8, number % 16] = texts
        else:
            found[number, :8] = texts
    return [" ".join(filter(None, row)) for row in found[:, first : first + 8]]


@pytest.mark.parametrize(("kind", "block", "case"), [("paper", 0, 0), ("paper", 1, 0), ("random", 0, 0)])
def test_both_banks_show_exponents_and_maxima(kind: str, block: int, case: int) -> None:
    seen = set()
    for state, svg in run(kind, block, case):
        for name, bank in (("compared", state.comparing), ("aligned", state.aligning)):
            maxima = about(svg, f"{name}, maximum")
            used = (16 if bank.kind else 8) if bank.words else 0
            assert [box.text for box in maxima] == [str(value) for value in bank.emax[:used]] + [""] * (16 - used)
            above = [group for group, box in enumerate(maxima) if box.kind == "code"]
            assert above in ([], list(range(8)), list(range(8, 16))) and bool(above) == bool(bank.words)
            assert exponents(svg, name).tolist() == words_of(bank, above[0] if above else 0)
            seen |= {name} if bank.words else set()
        assert len(svg) < 100_000

    assert seen == {"compared", "aligned"}


def test_leaving_lanes_are_the_output_ports() -> None:
    left = 0
    for state, svg in run("random", 0):
        signed = [box.text for box in about(svg, "lane") if box.about.endswith("mantissa")]
        shared = [box.text for box in about(svg, "lane") if box.about.endswith("exponent")]
        for lane in range(8):
            there = state.out_valid >> lane & 1
            assert signed[lane] == (f"{'-' * state.sign[lane]}{state.mantissa[lane]}" if there else "·")
            assert shared[lane] == (f"E {state.exponent[lane]}" if there else "·")
            left += there
        if state.out_valid:
            place = f"of group {state.element}" if state.out_kind else f"element {state.element} of every group"
            assert any(text.startswith("leaves") and place in text for text in texts(svg))

    assert left == state.aligned > 0


def test_clock_marks_arriving_and_leaving_columns() -> None:
    """Tokens: the row that came, and the row whose mantissas leave."""
    for state, svg in run("paper", 0):
        hot = [box.about for box in boxes(svg) if box.kind == "hot" and box.about]
        if state.event == "compare":
            assert hot == [f"compared, element {state.filled - 1}, from group 0"]
        elif state.event == "max":
            assert hot == ["aligned, element 31, from group 0"]
        elif state.event == "align":
            assert hot == [f"aligned, element {state.element}, from group 0"]
        else:
            assert state.event in ("done", "idle") and hot == []


def test_v_block_is_aligned_group_by_group() -> None:
    for state, svg in run("paper", 1):
        hot = [box.about for box in boxes(svg) if box.kind == "hot" and box.about]
        if state.event == "align":
            rows = range(8 * state.subgroup, 8 * state.subgroup + 8)
            assert hot == [f"aligned, element {row}, from group {state.element}" for row in rows]
            gone = [box.text.split() for box in about(svg, "aligned, element 31") if box.kind == "gone"]
            assert len(gone[0] if gone else []) == state.element % 8  # of the groups drawn, those before this one


def test_description_names_banks_and_lanes() -> None:
    state, svg = next((state, svg) for state, svg in run("paper", 0) if state.event == "align")
    words = tree(svg)[1].text or ""

    assert f"maxima {', '.join(map(str, state.align_emax[:8]))}" in words
    assert f"with exponent {state.exponent[7]}" in words
