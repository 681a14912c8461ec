"""Costs of KLLM's chip: the paper's formulas, and where counting costs more than a dense product."""

import numpy as np
import pytest

from refemu.models import machine
from refemu.models.schemes.kllm.cost import search
from refemu.units.kllm import orizuru_passes

pytestmark = pytest.mark.long


def test_a_linear_layer_reduces_every_entry_once_an_output() -> None:
    """[kllm §III-B]: 256 products an output at W4A4, 128 at W4A3, whatever the length of the sums."""
    outputs = 5 * (64 + 32 + 32 + 64 + 96 + 96 + 64)
    for scheme, entries in (("kllm-a4", 256), ("kllm-a3", 128)):
        rows = {row.kind: row.cost for row in machine.cost("tiny", scheme, 5).layers if row.layer == 1}
        assert rows["linear"].macs["reduce"] == entries * outputs


@pytest.mark.parametrize("percent", ["1", "10"])
def test_orizuru_compares_as_the_paper_says(percent: str) -> None:
    """1.5 N - 2 + 2 k log2 N, N filled up to a power of two [kllm §IV-C]; nine activations a token."""
    rows = {
        row.kind: row.cost
        for row in machine.cost("tiny", f"kllm-a4:outlier_percent={percent}", 3).layers
        if row.layer == 0
    }

    due = 0
    for size in (64, 64, 32, 32, 64, 64, 96, 96, 96):
        k, height = -(-size * int(percent) // 200), (size - 1).bit_length()
        due += 3 * ((3 << height) // 2 - 2 + 2 * k * height)
    assert rows["quantize"].comparisons == due


@pytest.mark.parametrize(
    ("n", "k", "inputs"), [(4096, 21, 4096), (11008, 56, 4096), (14336, 72, 4096), (100, 7, 16), (33, 5, 8)]
)
def test_a_search_costs_what_the_unit_counts(n: int, k: int, inputs: int) -> None:
    """D-kllm-60: tokens wider than the tree in passes."""
    answer = orizuru_passes.search(np.arange(n).astype(np.float16)[None], k, inputs, jit=True)

    assert search(n, k, inputs) == (answer.comparisons, answer.cycles)


def test_logits_cost_more_products_than_a_dense_sum() -> None:
    """256 an output beside 16 features; the claim of few products does not hold for q x K^T."""
    rows = {row.kind: row.cost for row in machine.cost("tiny", "kllm-a4", 8).layers if row.layer == 0}

    pairs = 4 * (8 * 9 // 2)
    assert rows["attention"].macs["reduce"] == pairs * 256 + 4 * 8 * 16 * 16
    assert rows["attention"].macs["reduce"] > 10 * pairs * 16
