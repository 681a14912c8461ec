"""Costs of KLLM's chip: the paper's formulas, and where counting costs more than a dense product."""

from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import machine, text
from refemu.models.machine import Phase, runner
from refemu.models.schemes.kllm.machine.options import KllmMachine
from refemu.models.schemes.kllm.machine.ports import Ports
from refemu.models.schemes.kllm.machine.works import searched
from refemu.units.kllm import orizuru_passes
from tests.oracles.costs import TINY, outside
from tests.oracles.kllm import cost as oracle

pytestmark = pytest.mark.long


@cache
def kllm(scheme: str) -> Any:
    """The scheme, calibrated once."""
    return models.prepare(models.load("tiny"), scheme)


def masks(scheme: str, tokens: int, phase: Phase) -> oracle.Masks:
    """Outliers that the scheme has in block 1."""
    prepared = kllm(scheme)
    ports, ids = Ports(prepared.operands, 1), models.load("tiny").tokenizer.encode(text.default())
    inputs = {call.part: call.inputs for call in runner.recorded(prepared, 1, ids, tokens, phase)}
    q, cache = inputs["attention"]
    sides = [side.tensor(len(cache)) for side in (cache.k, cache.v)]
    gated = zip(("gate", "up"), inputs["activation"], strict=True)
    encoded = [ports.encode("q", q.reshape(len(q), -1)), *sides, *(ports.encode(name, x) for name, x in gated)]
    return oracle.Masks(*(tensor.mask.astype(int).tolist() for tensor in encoded))


def counts(row: machine.LayerCost) -> dict[str, Any]:
    """The counts of a row, without its records."""
    return {name: value for name, value in asdict(row.cost).items() if name != "works"}


@pytest.mark.parametrize(("scheme", "bits"), [("kllm-a4", 4), ("kllm-a3", 3)])
@pytest.mark.parametrize(("tokens", "phase"), [(5, "prompt"), (20, "decode")])
def test_every_count_is_that_of_the_oracle(
    scheme: str, bits: int, tokens: int, phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orizuru, clustering, both kinds of products, softmax and the gate, with a pop on each side of a token."""
    prepared = kllm(scheme)
    monkeypatch.setattr(models, "prepare", lambda *_: prepared)
    rows = machine.cost("tiny", scheme, tokens, phase).layers

    block = {row.kind: counts(row) for row in rows if 1 in row.blocks}
    assert block == oracle.block(TINY, masks(scheme, tokens, phase), 1, bits)
    (head,) = (counts(row) for row in rows if row.layer < 0)
    assert head == outside(1, TINY.vocab, TINY.width)


def test_linear_layer_reduces_every_entry_per_output() -> None:
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

    assert searched(n, k, KllmMachine(tree=inputs)) == (answer.comparisons, answer.cycles)


@pytest.mark.parametrize(("search", "cycles"), [("level", 12 + 21 * 13), ("unit", 3 + 21 * 4)])
def test_cycles_of_a_search(search: Any, cycles: int) -> None:
    """D-kllm-70: 285 and 87 for 4,096 values and 21 pops: to the root, then a pop and a repair each."""
    assert searched(4096, 21, KllmMachine(search=search)).cycles == cycles


def test_logits_cost_more_products_than_a_dense_sum() -> None:
    """256 per output compared with 16 features; the claim of few products does not hold for q x K^T."""
    rows = {row.kind: row.cost for row in machine.cost("tiny", "kllm-a4", 8).layers if row.layer == 0}

    pairs = 4 * (8 * 9 // 2)
    assert rows["attention"].macs["reduce"] == pairs * 256 + 4 * 8 * 16 * 16
    assert rows["attention"].macs["reduce"] > 10 * pairs * 16
