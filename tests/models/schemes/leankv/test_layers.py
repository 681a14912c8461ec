"""The decoder: its caches, counters and taps for a prompt and for steps, under one and several workers."""

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import NUMPY
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.leankv.layers import prepare
from refemu.models.schemes.scheme import silent
from refemu.units.unit import Cases
from tests.models.schemes.leankv.plain import CHANGES, small

TEXT = f"leankv:{CHANGES},align=4+4,page_bytes=112,window=4"
PRUNING = f"{TEXT},t_low=0.05,t_high=0.12"
KEEPING = f"{TEXT},t_low=0.0"
IDS = [3, 7, 1, 10, 7, 0, 2, 5, 5, 9]
HEADS = 2 * 2  #: layers times KV heads


@cache
def parts(text: str = PRUNING) -> Any:
    return models.prepare(small(), text)


def counters(text: str, prompt: int = 8) -> dict[str, int]:
    session = models.session(parts(text))
    session.append(IDS[:prompt])
    for token in IDS[prompt:]:
        session.append([token])
    return session.counters


def test_tokens_are_written_or_pruned() -> None:
    """Every layer and KV head, once each; with T_l of 0 no token is pruned."""
    kept, pruned = counters(KEEPING), counters(PRUNING)

    assert (kept["tokens_written"], kept["tokens_pruned"]) == (HEADS * len(IDS), 0)
    assert pruned["tokens_pruned"] > 0
    assert pruned["bytes_read"] < kept["bytes_read"] < kept["bytes_read_fp16"]
    assert kept["bytes_read_fp16"] == pruned["bytes_read_fp16"] == 4 * 16 * HEADS * (9 + 10)


def test_a_prompt_attends_like_scheme_fp16() -> None:
    """Not a bit differs: keys and values are quantized after it."""
    plain, paged = (models.session(models.prepare(small(), name)) for name in ("fp16", PRUNING))

    assert plain.append(IDS).tobytes() == paged.append(IDS).tobytes()
    assert plain.append([4]).tobytes() != paged.append([4]).tobytes()


def test_workers_share_out_heads_and_change_no_bit() -> None:
    single, shared = (models.session(parts(f"{PRUNING}{workers}")) for workers in ("", ",workers=2"))

    for ids in (IDS, [4], [6]):
        assert single.append(ids).tobytes() == shared.append(ids).tobytes()
    assert single.counters == shared.counters
    with pytest.raises(Refused, match="workers must divide the 2 KV heads, got 3"):
        models.prepare(small(), f"{PRUNING},workers=3")


def test_another_configuration_takes_the_same_weights() -> None:
    other: Any = schemes.parse(KEEPING)
    changed = parts().under(other)
    session, prepared = models.session(changed), models.session(parts(KEEPING))
    for ids in (IDS, [4]):
        assert session.append(ids).tobytes() == prepared.append(ids).tobytes()

    assert changed.config == other and parts().config != other
    assert changed._linears is parts()._linears


def test_taps_change_no_bit() -> None:
    seen: Counter[str] = Counter()

    def tap(layer: int, unit: str, case: Cases) -> None:
        seen[unit] += 1

    watched, alone = models.session(parts(), taps=tap), models.session(parts())
    for ids in (IDS, [4]):
        assert watched.append(ids).tobytes() == alone.append(ids).tobytes()
    assert seen["generation_compressor"] > 0


def test_layers_have_no_cache_of_their_own() -> None:
    with pytest.raises(Refused, match="layers share one pool of pages"):
        parts().cache(0)


def test_preparation_needs_no_calibration() -> None:
    config = LeanKvConfig(k_vec=1, k_group=4, v_vec=2, v_group=2)
    prepared = prepare(config, small(), NUMPY, None, silent)

    assert (prepared.lean, prepared.units.backend) == (config, NUMPY)
    assert np.array_equal(prepared.embed(np.array([3])), parts().embed(np.array([3])))
