"""What the golden cases of bfp_converter must hold, and how a matrix becomes columns."""

import numpy as np

from refemu.units.harmonia.bfp_converter import UNIT
from refemu.units.harmonia.bfp_converter.bfp_converter import TOKEN, V
from refemu.units.harmonia.bfp_converter.matrix import blocks

PAPER = UNIT.configs["paper"]


def test_blocks_are_those_of_the_figure() -> None:
    """[harmonia §IV-C, Fig. 14]: 8 x 32 in 32 columns, 32 x 16 in four loops of 16; short ones end by `last`."""
    matrix = np.arange(40 * 40, dtype=np.uint16).reshape(40, 40)
    tokens, values = list(blocks(matrix, TOKEN)), list(blocks(matrix, V))

    assert [(block.row, block.column, len(block.columns)) for block in tokens[:3]] == [
        (0, 0, 32),
        (0, 32, 8),
        (8, 0, 32),
    ]
    assert [(block.row, block.column, len(block.columns)) for block in values] == [
        (0, 0, 64),
        (0, 16, 64),
        (0, 32, 64),
        (32, 0, 16),
        (32, 16, 16),
        (32, 32, 16),
    ]
    assert [[column[2] for column in block.columns].count(1) for block in (*tokens[:2], values[0], values[3])] == [
        0,
        1,
        0,
        1,
    ]
    assert [column[1] for column in values[2].columns[:16]] == [255] * 8 + [0] * 8
    assert values[0].columns[17][0] == tuple(matrix[8:16, 1].tolist())


def test_cases_overlap_stall_and_reach_both_paths() -> None:
    assert UNIT.mark is not None
    marks = []
    for kind in ("paper", "edge", "random"):
        for block in UNIT.cases(PAPER, kind, 0):
            result = UNIT.evaluate(PAPER, block.inputs)
            marks.append(UNIT.mark(PAPER, block.inputs, result))
            if "cut off" not in block.why:
                assert result.align_cycles == result.compare_cycles and not result.out_valid[:, -1].any()

    assert any(mark["OVERLAP"].any() for mark in marks) and any(mark["STALL"].any() for mark in marks)


def test_legal_inputs_are_one_block() -> None:
    assert UNIT.legal is not None
    given = {
        "x": np.zeros((2, 8), int),
        "valid": np.array([3, 5]),
        "kind": np.array([0, 1]),
        "m": np.array([8, 4]),
        "last": np.array([0, 1]),
        "column_valid": np.array([0, 1]),
    }
    found = UNIT.legal(PAPER, given)

    assert {name: found[name].tolist() for name in ("valid", "kind", "m", "last", "column_valid")} == {
        "valid": [3, 3],
        "kind": [0, 0],
        "m": [8, 8],
        "last": [0, 0],
        "column_valid": [0, 1],
    }
    none = UNIT.legal(PAPER, given | {"valid": np.array([0, 5])})
    assert none["column_valid"].tolist() == [0, 0]  # a token block without a lane does not come
