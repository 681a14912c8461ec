"""What the taps of a LeanKV scheme are told: cases of ready configurations whose answers are the scheme's."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import models, units
from refemu.arith import fp16
from refemu.golden.files import sets
from refemu.golden.make import model_cases
from refemu.golden.make.generate import generate
from refemu.models import schemes
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes.leankv import taps
from refemu.units.unit import Cases
from tests.models.schemes.fp16.test_decoder import Small
from tests.models.schemes.leankv.plain import CHANGES
from tests.models.schemes.tap_cases import evaluated

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
    session = models.session(models.prepare(model, config), lambda *call: calls.append(call))
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

    assert tuple(sorted(met)) == taps.UNITS == schemes.taps(schemes.SCHEMES["leankv"])
    for unit in set(taps.UNITS) - {"page_manager"}:
        assert {(layer, case.source["kv_head"]) for layer, case in cases(wide, unit)} == {
            (layer, head) for layer in (0, 1) for head in (0, 1)
        }
    assert {layer for layer, _ in cases(tiny, "page_manager")} == {0, 1, 2}


def test_every_case_is_admitted_by_its_unit() -> None:
    for calls in (
        recorded(WIDE, True, 20, 3)[1],
        recorded(TINY, False, 8, 4)[1],
        recorded(f"{WIDE},preset=diffkv,alpha_quant=3.0", True, 20, 3)[1],
    ):
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
        case.inputs["p"].tobytes() for _, case in cases(longer, "significance")
    ]


DECIDING = {  #: scheme -> the configuration that shows it
    TINY: "wide",
    f"{TINY},score_rule=cumulative": "wide_cumulative",
    f"{TINY},gqa=mean": "wide",
    f"{TINY},low=none": "wide",
    f"{TINY},preset=diffkv,alpha_quant=3.0": "diffkv",
    f"{TINY},low=none,policy=static,keep_percent=50": "static",
}


@pytest.mark.parametrize(("scheme", "config"), DECIDING.items())
def test_decisions_are_the_schemes_for_every_head_and_step(scheme: str, config: str) -> None:
    """The port shows what the head stored, no more and no less, so the unit answers what the model did."""
    prompt, steps = (20, 10) if "static" in scheme else (28, 10)
    session, calls = recorded(scheme, False, prompt, steps)
    found = cases(calls, "generation_compressor")
    stored = [case.source["stored"] for _, case in found]

    assert len(found) == steps * 3 * 2 and found[-1][1].inputs["n"].tolist() == [prompt + steps - 1]
    assert {case.config for _, case in found} == {config}
    assert [int(case.inputs["n_high"][0]) + int(case.inputs["n_low"][0]) for _, case in found] == stored
    assert contradictions([case for _, case in found]) == []
    pool = session._caches.pools.pools[0].stored([0])
    assert max(stored) <= pool.lengths.sum(axis=-1).max() and (config == "static" or max(stored) > 16)


def contradictions(shown: list[Cases]) -> list[str]:
    """Reasons of the cases whose unit makes another choice."""
    unit, wrong = units.find("generation_compressor"), list[str]()
    for config in sorted({case.config for case in shown}):
        own = [case for case in shown if case.config == config]
        rows = {name: np.concatenate([case.inputs[name] for case in own]) for name in own[0].inputs}
        choices = unit.evaluate(unit.configs[config], rows).choice.tolist()
        wrong += [
            case.why
            for case, choice in zip(own, choices, strict=True)
            if f"choice is {taps.CHOICES[choice]}" not in case.why
        ]
    return wrong


@pytest.mark.parametrize(
    "changed",
    [
        "preset=diffkv,include_self=false",
        "preset=diffkv,score_queries=32",
        "preset=diffkv,quirks=position_epoch",
        "policy=static,low=none,keep_percent=60",
    ],
)
def test_schemes_that_no_configuration_decides_like_show_nothing(changed: str) -> None:
    _, calls = recorded(f"{TINY},{changed}", False, 8, 2)

    assert cases(calls, "generation_compressor") == []


def test_heads_that_no_configuration_holds_are_not_shown() -> None:
    """Never cut: of a budget of half the tokens, those of 16 slots and less."""
    scheme = f"{TINY},low=none,policy=static,keep_percent=50"
    session, calls = recorded(scheme, False, 30, 6)
    found = cases(calls, "generation_compressor")

    assert {int(case.inputs["n"][0]) for _, case in found} == {30, 31, 32, 33}
    assert session._caches.pools.pools[0].stored([0]).lengths.sum(axis=-1).max() == 18


REAL = [pytest.mark.model, pytest.mark.slow]


@pytest.mark.parametrize(
    ("model", "scheme", "tokens", "choices"),
    [
        ("tiny", TINY, 64, {"A3", "B1", "B2", "C"}),
        pytest.param("smollm2-135m", "leankv", 96, {"W", "A1", "A2", "B1", "B2", "C"}, marks=REAL),
    ],
)
def test_no_row_of_a_generated_set_contradicts_its_description(
    tmp_path: Path, request: pytest.FixtureRequest, model: str, scheme: str, tokens: int, choices: set[str]
) -> None:
    """`refemu generate --kinds model`: every case says which choice its one row has."""
    if model == "smollm2-135m":
        request.getfixturevalue("smollm2")
    generate(tmp_path, units=["generation_compressor"], kinds=["model"], model=model, scheme=scheme, tokens=tokens)
    made = [sets.load(folder) for folder in sorted(tmp_path.iterdir())]
    said = [
        (re.findall(r"choice is (\w+)", entry["why"]), entry["rows"] * entry["cases"])
        for golden in made
        for entry in golden.manifest["cases"]
    ]
    found = [taps.CHOICES[choice] for golden in made for choice in golden.arrays["out.choice"].tolist()]

    assert [golden.name for golden in made] == ["generation_compressor-wide"]
    assert said == [([choice], 1) for choice in found]
    assert set(found) == choices


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
    expected = {"significance": {(unit, "paper")}, "generation_compressor": {(unit, "paper"), (unit, "wide")}}[unit]
    first = {case.source["first_token"] for shown in found.values() for case in shown}

    assert set(found) == expected
    assert first >= {0 if unit == "significance" else 23}
