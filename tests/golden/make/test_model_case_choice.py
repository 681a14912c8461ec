"""Selection of cases from a model's run: blocks, windows of tokens, the largest of their kind."""

import numpy as np
import pytest

import refemu.units
from refemu.golden.make import model_case_choice
from refemu.units.unit import Cases
from tests.golden import fakes


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        ({0: 1.0, 1: 9.0, 2: 3.0}, {0: "the first", 1: "its linear inputs peak highest", 2: "the last"}),
        ({0: 9.0, 1: 1.0}, {0: "the first, and its linear inputs peak highest", 1: "the last"}),
        ({0: 1.0, 1: 5.0, 2: 5.0, 3: 1.0}, {0: "the first", 1: "its linear inputs peak highest", 3: "the last"}),
        ({0: 1.0}, {0: "the first, and the last, and its linear inputs peak highest"}),
        ({-1: 99.0, 0: 1.0, 1: 2.0}, {0: "the first", 1: "the last, and its linear inputs peak highest"}),
    ],
)
def test_selected_blocks_have_reasons(peaks: dict[int, float], expected: dict[int, str]) -> None:
    """Block -1 is the output matrix, which is not a block."""
    assert expected == model_case_choice.chosen_layers(peaks)


@pytest.mark.parametrize(
    ("flagged", "peak", "expected"),
    [
        ([], 0, {0: ["the first token", "the token with the most flagged rows", "the largest magnitude"]}),
        ([6], 13, {6: ["the first token", "the token with the most flagged rows"], 11: ["the largest magnitude"]}),
        (
            [4, 14, 15, 16],
            5,
            {3: ["the first token", "the largest magnitude"], 14: ["the token with the most flagged rows"]},
        ),
    ],
)
def test_selected_windows_have_reasons(
    monkeypatch: pytest.MonkeyPatch, flagged: list[int], peak: int, expected: dict[int, list[str]]
) -> None:
    """Three tokens of eight rows and windows of three; the last window of a token has two."""
    monkeypatch.setattr(refemu.units, "find", lambda name: fakes.UNITS[name])
    monkeypatch.setattr(model_case_choice, "WINDOW", 3)
    first = np.zeros(24, np.int64)
    first[flagged] = 15
    inputs = {"first": first, "second": np.full(24, 7)}
    source = {"tensor": "t", "first_token": 0, "tokens": 3, "pairs_per_token": 8, "peak_row": peak}
    case = Cases("model", "why", inputs, source=source, config="wrap")

    assert model_case_choice._starts("blender", case) == expected
    assert [len(kept.inputs["first"]) for kept in model_case_choice.windows("blender", case)] == [
        2 if start % 8 == 6 else 3 for start in sorted(expected)
    ]


def sized(why: str, config: str = "wrap", **source: int) -> Cases:
    return Cases("model", why, {}, source=source, config=config)


def test_largest_case_of_its_kind_is_selected() -> None:
    """The first of equal cases is selected; a case without a size remains too."""
    small, first, equal = (sized("a sum", largest=size, number=number) for number, size in enumerate((3, 5, 5)))
    others = [
        (1, "blender", sized("a sum", largest=1)),
        (0, "meter", sized("a sum", largest=1)),
        (0, "blender", sized("a sum", "saturate", largest=1)),
        (0, "blender", sized("another sum", largest=1)),
        (0, "blender", sized("a sum")),
    ]
    cases = [(0, "blender", small), (0, "blender", first), *others, (0, "blender", equal)]
    kept = list(model_case_choice.largest(cases))

    assert [(layer, unit, case.config, dict(case.source)) for layer, unit, case in kept] == [
        (0, "blender", "wrap", {"largest": 5, "number": 1}),
        *((layer, unit, case.config, dict(case.source)) for layer, unit, case in others),
    ]
    assert kept[0][2].why == "a sum, of the linear layers here the one where it is largest"
    assert kept[-1][2].why == "a sum"


def test_case_without_tokens_is_complete() -> None:
    case = sized("a sum", largest=3)

    assert list(model_case_choice.windows("blender", case)) == [case]
