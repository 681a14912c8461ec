"""Registers of paged attention: the float32 stages of unit and compiled form are those of an oracle, chunk by chunk."""

from typing import Any

import numpy as np
import pytest

from refemu.units.leankv.paged_attention import PAPER, Arithmetic, PagedAttention, Pages
from refemu.units.leankv.paged_attention import run as readable
from refemu.units.leankv.paged_attention.arithmetic import EPSILON
from refemu.units.leankv.paged_attention.compiled import run as compiled_run
from refemu.units.leankv.paged_attention.configurations import NARROW
from refemu.units.leankv.paged_attention.ports import values
from tests.oracles.leankv.attention import Softmax
from tests.units.leankv.test_paged_attention import Head, layouts

SMALL = layouts(size=384)
ARITHMETIC = [
    pytest.param(PAPER, id="paper"),
    pytest.param(Arithmetic(**NARROW), id="narrow"),
    pytest.param(Arithmetic(order="sequential", fma=False), id="sequential"),
    pytest.param(Arithmetic(partition_tokens=1, warps=2), id="partitions"),
    pytest.param(
        Arithmetic(softmax_div="recip_mul", softmax_eps=EPSILON, partition_tokens=1, lane_max=True), id="diffkv"
    ),
]


def parameters(head: Head, arithmetic: Arithmetic) -> dict[str, Any]:
    pages: Pages = head.pages
    return {
        **vars(arithmetic),
        "head_size": pages.high.head_size,
        "heads": len(head.q),
        "high": pages.high.config.name,
        "low": pages.low.config.name if pages.low else None,
        "page_bytes": pages.high.size,
        "cells": len(head.cells),
        "stages": True,
    }


def expected(chunks: list[list[Softmax]], tokens: int) -> dict[str, list[float]]:
    """Values of the registers, without the zeros of tokens and chunks that the head has not."""
    by_chunk = list(zip(*chunks, strict=True))
    return {
        "logits": [x for head in chunks for chunk in head for x in chunk.logits],
        "chances": [x for head in chunks for chunk in head for x in chunk.p],
        "tops": [head.maximum for chunk in by_chunk for head in chunk],
        "totals": [head.total for chunk in by_chunk for head in chunk],
        "sums": [x for chunk in by_chunk for head in chunk for x in head.out],
        "acc": [x for head in by_chunk[-1] for place in zip(*head.accumulators, strict=True) for x in place],
    }


@pytest.mark.parametrize("run", [readable, compiled_run], ids=["unit", "compiled"])
@pytest.mark.parametrize("arithmetic", ARITHMETIC)
@pytest.mark.parametrize("counts", [(1, 0), (5, 9), (3, 14)])
def test_registers_are_the_oracles(run: Any, arithmetic: Arithmetic, counts: tuple[int, int]) -> None:
    """D-leankv-41, D-leankv-56: logits, maxima, sums of exponentials, accumulators and their sums, bit for bit."""
    head = Head(SMALL, counts, seed=sum(counts), spare=2)
    made = run(**head.ports(), **parameters(head, arithmetic))
    tokens = sum(counts)
    last = list(PagedAttention(**parameters(head, arithmetic)).steps(**head.ports()))[-1]
    for name, wanted in expected(head.chunks(arithmetic), tokens).items():
        register = values(last.chances, -1) if name == "chances" else getattr(made, name)
        found = register.ravel().view(np.float32)
        if name in ("logits", "chances"):
            found = found.reshape(len(head.q), -1)
            assert not found[:, tokens:].any()
            found = found[:, :tokens].ravel()
        assert found[: len(wanted)].tolist() == wanted, name
        assert not found[len(wanted) :].any()


def test_a_state_shows_the_stages_as_they_come() -> None:
    """After the keys there are logits and no p; after each value page more accumulators; the sum is at the end."""
    head = Head(SMALL, (5, 9), seed=3, spare=0)
    device = PagedAttention(**parameters(head, PAPER))
    states = {}
    for number, state in enumerate(device.steps(**head.ports())):
        states[number, state.event] = state
    events = [event for _, event in states]
    assert events == ["key_page"] * 6 + ["softmax"] + ["value_page"] * 6 + ["tree", "score"]
    seen = [np.count_nonzero(values(state.logits, 2, -1)[0]) for state in states.values()]
    assert seen[:6] == [2, 4, 5, 9, 13, 14] and set(seen[6:]) == {14}
    full = [np.count_nonzero(values(state.acc, 2, 32, 64).any(axis=(0, 2))) for state in states.values()]
    assert full[:7] == [0] * 7 and full[7] == 1 and full[12] == full[-1] == 5
    last = states[14, "score"]
    assert values(last.sums, 2, 64).astype(np.float16).view(np.uint16).ravel().tolist() == list(last.out)
    assert not any(values(states[12, "value_page"].sums, -1))


def test_stages_are_ports_only_on_request() -> None:
    names = ["logits", "tops", "totals", "acc", "sums"]
    assert PagedAttention().ports.state == ()
    assert [port.name for port in PagedAttention(stages=True).ports.state] == names
    assert {port.encoding for port in PagedAttention(stages=True).ports.state} == {"f32"}


def test_a_state_restores_the_registers() -> None:
    head = Head(SMALL, (5, 9), seed=4, spare=0)
    device, other = (PagedAttention(**parameters(head, PAPER)) for _ in range(2))
    states = list(device.steps(**head.ports()))
    other.restore(states[8])
    rest = []
    while other.busy:
        rest.append(other.step())
    assert rest == states[9:]
