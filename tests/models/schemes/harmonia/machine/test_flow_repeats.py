"""Tiles that the clocks of a product skip: equal to stepping each of them, over random sizes."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.jit import jit_is_off
from refemu.models.schemes.harmonia.machine import flow
from refemu.models.schemes.harmonia.machine.flow import Flow, Port, timed
from refemu.models.schemes.harmonia.machine.sizes import BFP4, BFP8, FP16, INT4, Product, packed
from refemu.units.harmonia.harmonia_core.timeline import PASSES

TILES = st.sampled_from([32, 64, 96])


@st.composite
def layers(draw: Any) -> Product:
    """A linear layer of any kind, up to 20 tiles long."""
    kind = draw(st.sampled_from(["q", "k", "v", "linear", "final", "context"]))
    tile_m, tile_k, head = draw(TILES), draw(TILES), draw(st.sampled_from([16, 32, 64, 96, 128]))
    rows, columns = (draw(st.integers(1, 20 * tile)) for tile in (tile_m, tile_k))
    if kind in ("q", "k"):
        columns = head * -(-columns // head)
    shifted = kind == "k" and draw(st.booleans())
    return Product(
        kind,
        rows,
        draw(st.integers(1, 1200)),
        columns,
        b=draw(st.sampled_from([INT4, BFP8])),
        slots=draw(st.integers(1, 6)),
        m=draw(st.sampled_from([0, 8])) if not shifted else 8,
        tile_m=tile_m,
        tile_k=tile_k,
        head_dim=head,
        dataflow=draw(st.integers(0, 2)),
        activation=draw(st.sampled_from(["none", "silu"])) if kind in ("linear", "final") else "none",
        rotation=draw(st.sampled_from(["none", "half"])) if kind in ("q", "k") else "none",
        bias=draw(st.sampled_from(["none", "after", "accumulator"])),
        shifted=shifted,
        tracked=min(rows, draw(st.integers(0, 33))) if shifted else 0,
    )


@st.composite
def scores(draw: Any) -> Product:
    """Scores of a prompt or of some later tokens, whose keys are demoted one by one."""
    share, tokens = draw(st.integers(1, 4)), draw(st.integers(1, 600))
    length = tokens + draw(st.sampled_from([0, 0, 1, 70, 1000]))
    seen = np.repeat(np.arange(length - tokens, length) + 1, share)
    first, window = draw(st.integers(0, 40)), draw(st.integers(1, 80))
    at = np.arange(length)
    falls = np.where(at < first, 0, at + window)
    mixed, causal = draw(st.booleans()), draw(st.booleans())
    return Product(
        "score",
        share * tokens,
        draw(st.sampled_from([32, 64, 128, 700])),
        length,
        b=draw(st.sampled_from([BFP8, FP16])),
        low=BFP4 if mixed else None,
        slots=2,
        m=draw(st.sampled_from([0, 8])),
        tile_m=draw(TILES),
        tile_k=draw(TILES),
        dataflow=draw(st.integers(0, 2)),
        codes=draw(st.sampled_from(["sets", "rows"])),
        falls=packed(np.where(falls <= length, falls, 0)) if mixed else b"",
        seen=packed(seen if draw(st.booleans()) else np.full(len(seen), length)) if mixed else b"",
        keys=packed(seen) if causal else b"",
    )


PORTS = st.builds(
    Port,
    st.sampled_from([None, Fraction(20480, 3), Fraction(500)]),
    st.sampled_from([1, 8, 64]),
    st.sampled_from(PASSES),
)


def stepped(product: Product, port: Port, times: int) -> Flow:
    """Clocks with each tile stepped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "periodic", lambda *_: 0)
        return timed(product, port, times)


@pytest.mark.skipif(jit_is_off(), reason="too slow without compiled kernels")
@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.one_of(layers(), scores()), PORTS, st.sampled_from([1, 2, 5]))
def test_clocks_with_skipped_tiles_equal_stepped_ones(product: Product, port: Port, times: int) -> None:
    assert timed(product, port, times) == stepped(product, port, times)
