"""Ids of cases: from kind and reason, unique, and back to rows."""

import pytest

from refemu.arith.checks import Refused
from refemu.golden.files import case_ids

BLOCKS = [
    {"first": 0, "cases": 1, "rows": 2, "kind": "paper", "why": "[kllm §IV-C, Fig. 7] the maximum, twice"},
    {"first": 2, "cases": 3, "rows": 2, "kind": "edge", "why": "ties (of either sign) go up"},
    {"first": 8, "cases": 2, "rows": 1, "kind": "edge", "why": "ties go up, others too"},
    {"first": 10, "cases": 1, "rows": 1, "kind": "edge", "why": "ties go up: again"},
]
IDS = ["paper/the-maximum", "edge/ties-go-up", "edge/ties-go-up-2", "edge/stated"]
MANIFEST = {"name": "unit-config", "cases": [{**block, "id": id} for block, id in zip(BLOCKS, IDS, strict=True)]}


def test_ids_are_first_words_of_the_reason() -> None:
    ids = case_ids.of_blocks((str(block["kind"]), str(block["why"])) for block in BLOCKS)

    assert ids == [*IDS[:3], "edge/ties-go-up-3"]
    assert [id for id, _ in case_ids.blocks(MANIFEST)] == IDS


@pytest.mark.parametrize(
    ("why", "id"),
    [
        ("one two three four five six seven", "one-two-three-four-five-six"),
        ("[olive §4.4] <4,3> x <0,5>: 15", "4-3-x-0-5"),
        ("-", "case"),
        ("[kllm §1]", "case"),
        ("a row's end. More", "a-row-end"),
    ],
)
def test_id_is_made_from_words(why: str, id: str) -> None:
    assert case_ids.of_blocks([("edge", why)]) == [f"edge/{id}"]


def test_inserted_block_changes_no_other_id() -> None:
    blocks = [("edge", "first"), ("edge", "second"), ("random", "second")]
    more = [blocks[0], ("edge", "between"), *blocks[1:]]
    assert [id for id in case_ids.of_blocks(more) if "between" not in id] == case_ids.of_blocks(blocks)


def test_case_is_found_by_id_and_row() -> None:
    rows = {id: rows for id, _, rows in case_ids.of_cases(MANIFEST)}

    assert list(rows)[:3] == ["paper/the-maximum/0", "edge/ties-go-up/0", "edge/ties-go-up/1"]
    assert [row for where in rows.values() for row in range(where.start, where.stop)] == list(range(11))
    for id, where in rows.items():
        assert case_ids.row_of(MANIFEST, id) == case_ids.row_of(MANIFEST, str(where.start)) == where.start
        assert all(case_ids.id_of(MANIFEST, row) == id for row in range(where.start, where.stop))


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("edge/ties-go/0", "unknown case 'edge/ties-go' of unit-config; did you mean 'edge/ties-go-up'"),
        ("edge/ties-go-up/3", "unit-config: edge/ties-go-up has cases 0 to 2, got '3'"),
        ("edge/ties-go-up/x", "has cases 0 to 2, got 'x'"),
        ("", "unknown case"),
    ],
)
def test_unknown_ids_are_rejected(id: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        case_ids.row_of(MANIFEST, id)
