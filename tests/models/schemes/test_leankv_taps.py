"""What the taps of a LeanKV scheme are told: cases of ready configurations whose answers are the scheme's."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.golden import model_cases
from refemu.models import schemes
from refemu.models.backend import find
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes import leankv_taps
from refemu.models.schemes.scheme import silent
from refemu.units.unit import Cases
from tests.models.schemes.leankv_plain import CHANGES
from tests.models.schemes.test_fp16 import Small
from tests.models.schemes.told import evaluated

TINY = f"leankv:{CHANGES},align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1"  #: pages of 2 and 4 tokens
WIDE = "leankv:window=8,t_low=0.01,t_high=0.06"
TEXT = list(b"It is a truth universally acknowledged")
SIZES = ModelConfig(blocks=2, width=8, ffn=6, heads=4, kv_heads=2, head_dim=64, vocab=256, context=64)
Call = tuple[int, str, Cases]


@cache
def recorded(scheme: str, wide: bool, prompt: int, steps: int) -> tuple[Any, list[Call]]:
    """A session, and every call of its tap; wide: heads of 64."""
    config: Any = schemes.parse(scheme)
    model = Model("wide", SIZES, Small(SIZES), "") if wide else models.load("tiny")
    calls: list[Call] = []
    session = models.session(config.prepare(model, find("jit"), None, silent), lambda *call: calls.append(call))
    session.append(TEXT[:prompt])
    if steps:
        session.append(TEXT[prompt : prompt + steps])
    return session, calls


def cases(calls: list[Call], unit: str) -> list[tuple[int, Cases]]:
    return [(layer, case) for layer, name, case in calls if name == unit]


def test_every_unit_is_tapped_in_every_layer_for_every_head() -> None:
    _, wide = recorded(WIDE, True, 20, 12)
    _, tiny = recorded(TINY, False, 8, 4)
    met = {name for _, name, _ in wide} | {name for _, name, _ in tiny}

    assert tuple(sorted(met)) == leankv_taps.UNITS == schemes.SCHEMES["leankv"].taps  # type: ignore[attr-defined]
    for unit in set(leankv_taps.UNITS) - {"page_manager"}:
        assert {(layer, case.source["kv_head"]) for layer, case in cases(wide, unit)} == {
            (layer, head) for layer in (0, 1) for head in (0, 1)}
    assert {layer for layer, _ in cases(tiny, "page_manager")} == {0, 1, 2}


def test_every_case_is_admitted_by_its_unit() -> None:
    for calls in (recorded(WIDE, True, 20, 3)[1], recorded(TINY, False, 8, 4)[1],
                  recorded(f"{WIDE},preset=diffkv,alpha_quant=3.0", True, 20, 3)[1]):
        for _, unit, case in calls:
            assert case.kind == "model"
            evaluated(unit, case)


def test_significance_sees_the_first_tokens_as_a_prompt_of_their_own() -> None:
    """Tokens see no later ones, so the unit answers what a prompt of eight tokens gets."""
    session, calls = recorded(WIDE, True, 8, 0)
    for layer, case in cases(calls, "significance"):
        stored = session._caches.pools.pools[0].stored([0]).score[0, layer, case.source["kv_head"]]
        assert evaluated("significance", case).sum.tobytes() == stored[:8].tobytes()
    _, longer = recorded(WIDE, True, 20, 3)

    assert [case.inputs["p"].tobytes() for _, case in cases(calls, "significance")] == [
        case.inputs["p"].tobytes() for _, case in cases(longer, "significance")]


def test_decisions_of_heads_that_are_shown_whole_are_the_schemes() -> None:
    _, calls = recorded(TINY, False, 8, 4)
    found = cases(calls, "generation_compressor")
    whole = [case for _, case in found if case.source["stored"] <= 16]

    assert len(whole) == len(found) == 4 * 3 * 2
    for case in whole:
        choice = int(evaluated("generation_compressor", case).choice[0])
        assert case.why.endswith(f"whose choice is {leankv_taps.CHOICES[choice]}")
    last = [case for _, case in found][-1]
    assert last.inputs["n"].tolist() == [11]


def test_the_manager_is_that_of_one_layer() -> None:
    """Its lengths after the last call are those of the session's own manager."""
    session, calls = recorded(TINY, False, 8, 4)
    manager = session._caches.pools.pools[0].manager
    for layer in range(3):
        *_, (_, case) = [one for one in cases(calls, "page_manager") if one[0] == layer]
        found = evaluated("page_manager", case)

        assert case.inputs["op"].tolist() == [[0, 1, 2, 2, 2, 2]]
        assert found.tokens[0, -1, :4].tolist() == manager.lengths([0])[0, layer].ravel().tolist()
        assert found.used[0, -1, :4].tolist() == manager.used([0])[0, layer].ravel().tolist()


def test_quantized_pieces_hold_the_largest_feature() -> None:
    _, calls = recorded(WIDE, True, 20, 3)
    for _, case in cases(calls, "kv_quantizer"):
        values = np.abs(fp16.values(case.inputs["x"]).astype(np.float32))

        assert values.max() == np.float32(case.source["largest"])
        assert case.inputs["bits"].tolist() == [8 if case.why.startswith("key") else 4]


def test_attention_over_a_piece_holds_the_newest_token() -> None:
    _, calls = recorded(WIDE, True, 20, 3)
    for _, case in cases(calls, "paged_attention"):
        found = evaluated("paged_attention", case)
        p = np.ascontiguousarray(found.p).view(np.float32).reshape(2, -1)

        assert np.allclose(p.astype(np.float64).sum(axis=1), 1, atol=1e-5)
        assert 1 <= case.inputs["n_high"][0] <= 9


@pytest.mark.parametrize("unit", ["significance", "generation_compressor"])
def test_golden_cases_of_a_run_show_both_phases(unit: str) -> None:
    source = model_cases.source("tiny", TINY, "It is a truth universally", 24)
    found = model_cases.tapped(source, units_=[unit])

    assert list(found) == [(unit, "paper")]
    assert {case.source["first_token"] for case in found[unit, "paper"]} >= {0 if unit == "significance" else 23}
