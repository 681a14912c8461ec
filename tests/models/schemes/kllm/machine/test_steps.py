"""Quantization, norm, function and product of indices: what is compared, and in how many cycles."""

import pytest

from tests.models.machine import wrong
from tests.models.schemes.kllm.machine.operations import operations


def test_orizuru_finds_masks_and_scales() -> None:
    found = operations("kllm-a4", 0, 5)["blk.0.down_in.outliers"]

    assert found.parameters == {"n": 96, "k": 1, "inputs": 4096, "min_leaf": "not_max", "total_order": False}
    assert (found.elements, found.differing) == (5 * 96 + 5 * 3, 0)
    assert found.words == {"values": 5 * 96, "outliers": 5 * 2}


def test_clustering_takes_whole_passes_of_every_token() -> None:
    """94 inliers of 96 values are six passes of sixteen."""
    index = operations("kllm-a4", 0, 5)["blk.0.down_in.index"]

    assert (index.elements, index.cycles) == (5 * 94, 5 * 6)


def test_norm_is_divided_for_every_reading_weight() -> None:
    done = operations("kllm-a4", 0, 5)

    assert [name for name in done if ".norm." in name] == [
        f"blk.0.{tensor}.norm.{weight}"
        for tensor, weight in [*(("attn_in", w) for w in "qkv"), ("ffn_in", "gate"), ("ffn_in", "up")]
    ]


@pytest.mark.parametrize(
    ("unit", "port", "part"),
    [
        ("orizuru_passes", "root_max", ".outliers"),
        ("clustering", "index", ".index"),
        ("index_function", "entries", "gate.function"),
        ("index_product", "q", "down_in.product"),
    ],
)
def test_a_wrong_unit_is_named(unit: str, port: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong.answers(monkeypatch, unit, port)

    wrongs = [name for name, operation in operations("kllm-a4", 0, 5).items() if operation.differing]

    assert any(name.endswith(part) for name in wrongs)


def test_a_token_without_outliers_has_a_function() -> None:
    """Static thresholds leave a token as many outliers as it has, none among them."""
    function = operations("kllm-a4-s", 0, 5)["blk.0.gate.function"]

    assert function.differing == 0
    assert function.words["entries"] == 5 * 16
