"""`run` of the page manager's compiled form: histories of many shapes, equal to the readable unit's, and errors."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.units.leankv import page_manager
from refemu.units.leankv.page_manager import OutOfPages, TableOverflow
from refemu.units.leankv.page_manager import compiled as page_manager_compiled
from refemu.units.stimuli import random_inputs

SIZES: dict[str, Any] = {
    "pages": 32,
    "layers": 1,
    "heads": 2,
    "high_tokens": 2,
    "low_tokens": 4,
    "max_len": 12,
    "slots": 4,
}
PROMPT, RELEASE, STEP, FINISH = range(4)
FIRST = [(PROMPT, [1, 2], [12, 4], [], []), (RELEASE, [1], [], [11, 12], [1, 0]), (STEP, [1], [], [1, 0], [0, 0])]


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({"low_tokens": None, "reserve_low": 1, "lazy_pages": False}, id="one precision"),
        pytest.param(
            {"layers": 2, "heads": 1, "scrub": True, "table_tokens": 3, "table_extra": 4}, id="scrubbed layers"
        ),
        pytest.param({"pages": 11, "slots": 3, "reserve_low": 1, "lazy_pages": False}, id="few pages"),
        pytest.param({"layers": 1, "heads": 1, "slots": 1, "pages": 7}, id="one entry"),
        pytest.param({"high_tokens": 1, "low_tokens": 1, "slots": 6, "pages": 48}, id="a token a page"),
    ],
)
def test_histories_are_those_of_the_unit(sizes: dict[str, Any]) -> None:
    """Two devices of three, so that leading axes are preserved; every output, register and counter."""
    config = SIZES | sizes
    drawn = random_inputs("walk", page_manager.UNIT.ports(config).inputs, (2, 3, 40), 5)
    assert page_manager.UNIT.legal is not None
    inputs = page_manager.UNIT.legal(config, drawn)
    found = page_manager_compiled.run(**inputs, **config)

    assert found.equals(page_manager.run(**inputs, **config))
    assert found.ids.shape == (2, 3, 40, config["pages"])
    assert min(found.allocated, found.recycled, found.levels + (config["slots"] == 1), found.pruned) > 0


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        pytest.param(
            (PROMPT, [9, 8], [12, 12], [], []),
            OutOfPages,
            "pages must be at most 15, the free ones, got 24",
            id="pages",
        ),
        pytest.param((PROMPT, [1], [2], [], []), Refused, "sequence 1 is admitted already", id="twice"),
        pytest.param((PROMPT, [9, 9], [2, 2], [], []), Refused, r"sequences must differ, got \[9, 9\]", id="one name"),
        pytest.param((PROMPT, [9], [0], [], []), Refused, "sequence 9 must have 1 to 12 tokens, got 0", id="empty"),
        pytest.param(
            (PROMPT, [7, 8, 9], [1, 1, 1], [], []),
            Refused,
            "sequences must be at most 2, the free slots, got 3",
            id="slots",
        ),
        pytest.param((RELEASE, [9], [], [1, 1], [0, 0]), Refused, "sequence 9 is unknown", id="unknown"),
        pytest.param((RELEASE, [1], [], [1, 1], [0, 0]), Refused, "1 is compressed already", id="released twice"),
        pytest.param(
            (RELEASE, [2], [], [4, 3], [0, 2]), Refused, "keeps 3 and 2 of 4 tokens", id="more than the prompt"
        ),
        pytest.param((STEP, [2], [], [1, 1], [0, 0]), Refused, "sequence 2 is not compressed yet", id="step too early"),
        pytest.param(
            (STEP, [1], [], [0, 0], [0, 2]),
            Refused,
            "must grow by at most one token in a step, got 0 and 2",
            id="two tokens",
        ),
        pytest.param((STEP, [1, 1], [], [0, 0, 0, 0], [0] * 4), Refused, "sequence 1 is named twice", id="named twice"),
        pytest.param(
            (STEP, [1], [], [1, 0], [0, 0]), TableOverflow, "head 0 of layer 0 needs 8 cells of 7", id="table"
        ),
        pytest.param((FINISH, [1, 9], [], [], []), Refused, "sequence 9 is unknown", id="finish unknown"),
        pytest.param((FINISH, [2, 2], [], [], []), Refused, "sequence 2 is named twice", id="finish twice"),
    ],
)
def test_rejected_events(event: Any, error: type[Exception], message: str) -> None:
    page_manager_compiled.run(**columns(FIRST), **SIZES)
    with pytest.raises(error, match=message):
        page_manager_compiled.run(**columns([*FIRST, event]), **SIZES)


@pytest.mark.parametrize(
    ("sizes", "events", "error", "message"),
    [
        pytest.param(
            {"low_tokens": None},
            [(PROMPT, [1], [4], [], []), (RELEASE, [1], [], [2, 2], [0, 1])],
            Refused,
            "has 1 low tokens without a low precision",
            id="kept low",
        ),
        pytest.param(
            {"low_tokens": None},
            [(PROMPT, [1], [4], [], []), (RELEASE, [1], [], [2, 2], [0, 0]), (STEP, [1], [], [0, 0], [0, 1])],
            Refused,
            "has 1 low tokens without a low precision",
            id="grown low",
        ),
        pytest.param(
            {"table_tokens": 4}, [(PROMPT, [1], [12], [], [])], TableOverflow, "needs 6 cells of 4", id="prompt"
        ),
        pytest.param(
            {"table_tokens": 3, "table_extra": 0},
            [(PROMPT, [1], [8], [], []), (RELEASE, [1], [], [7, 1], [1, 1])],
            TableOverflow,
            "head 0 of layer 0 needs 5 cells of 4",
            id="lacking cell",
        ),
        pytest.param(
            {"pages": 2},
            [(PROMPT, [1], [2], [], []), (RELEASE, [1], [], [1, 1], [1, 1])],
            OutOfPages,
            "pages must be at most 0, the free ones, got 2",
            id="lacking page",
        ),
        pytest.param(
            {"pages": 2},
            [(PROMPT, [1], [2], [], []), (RELEASE, [1], [], [2, 2], [0, 0]), (STEP, [1], [], [1, 1], [0, 0])],
            OutOfPages,
            "pages must be at most 0, the free ones, got 2",
            id="step",
        ),
    ],
)
def test_rejected_histories(sizes: dict[str, Any], events: Any, error: type[Exception], message: str) -> None:
    """All events but the last are admitted."""
    page_manager_compiled.run(**columns(events[:-1] or [(STEP, [], [], [], [])], SIZES | sizes), **{**SIZES, **sizes})
    with pytest.raises(error, match=message):
        page_manager_compiled.run(**columns(events, SIZES | sizes), **{**SIZES, **sizes})


def columns(history: Any, sizes: dict[str, Any] = SIZES) -> dict[str, np.ndarray]:
    """A history as the ports have it."""
    slots, heads = sizes["slots"], sizes["slots"] * sizes["layers"] * sizes["heads"]
    padded = [
        [
            np.array([*values, *[0] * (lanes - len(values))], np.int64)
            for values, lanes in zip(event[1:], (slots, slots, heads, heads), strict=True)
        ]
        for event in history
    ]
    names = ("sequences", "prompts", "high", "low")
    return {
        "op": np.array([event[0] for event in history]),
        "members": np.array([len(event[1]) for event in history]),
        **{name: np.stack(column) for name, column in zip(names, zip(*padded, strict=True), strict=True)},
    }
