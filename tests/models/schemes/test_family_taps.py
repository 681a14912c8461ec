"""Taps of every scheme on the decoders of every family: ports fit, units answer, no bit changes, no unit is missing."""

from collections.abc import Sequence
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.models import schemes
from refemu.models.builtin.tiny_decoders import CONFIGS
from refemu.models.schemes.kllm.block import Blocks
from refemu.models.schemes.kllm.taps import Taps
from tests.models.schemes.tap_cases import Told, evaluated, require_ports

NAMES = tuple(name for name, sizes in CONFIGS.items() if not sizes.experts)
PAGED = tuple(name for name in NAMES if name not in ("tiny-gemma2", "tiny-bloom"))  # the others are rejected
TEXT, PROMPT = list(b"Sir Walter Elliot, of Kellynch"), 26
CALIBRATION = list(b"It is a truth universally acknowledged. " * 2)
OLIVE = "olive-4:low=90,high=130,step=10"
PAGES = "leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1"
#: units that a short text may not reach: chosen types, the sizes of a ready configuration
RARE = {"flint_decoder", "olive_systolic_clocked"}


@cache
def prepared(name: str, scheme: str) -> Any:
    return models.prepare(name, scheme, calibration=None if scheme.startswith("harmonia") else CALIBRATION)


@cache
def recorded(name: str, scheme: str) -> tuple[Sequence[Told], bytes]:
    """Every call of the tap in a prompt and two steps, and their logits. Pages allow no text beyond a window."""
    calls: list[Told] = []
    session = models.session(prepared(name, scheme), lambda *call: calls.append(call))
    return calls, stepped(session, name, scheme)


def stepped(session: Any, name: str, scheme: str) -> bytes:
    most = 12 if (scheme, name) == (PAGES, "tiny-mistral") else PROMPT + 2
    first = session.append(TEXT[: most - 2]).tobytes()
    return first + b"".join(session.append([token]).tobytes() for token in TEXT[most - 2 : most])


SCHEMES = [
    *((OLIVE, name) for name in NAMES),
    *(("kllm-a4", name) for name in NAMES),
    *(("harmonia-kv8", name) for name in NAMES),
    *((PAGES, name) for name in PAGED),
]
QUICK = ("tiny-qwen3", "tiny-gemma2", "tiny-bloom")


def cell(scheme: str, name: str) -> Any:
    return pytest.param(scheme, name, id=f"{scheme[:6]}-{name}", marks=() if name in QUICK else pytest.mark.long)


every = pytest.mark.parametrize(("scheme", "name"), [cell(*pair) for pair in SCHEMES])


@every
def test_every_case_is_one_that_its_unit_answers(scheme: str, name: str) -> None:
    calls, _ = recorded(name, scheme)

    require_ports(calls)
    for _, unit, case in calls:
        assert evaluated(unit, case) is not None


@every
def test_taps_change_no_bit(scheme: str, name: str) -> None:
    assert recorded(name, scheme)[1] == stepped(models.session(prepared(name, scheme)), name, scheme)


@every
def test_every_unit_is_shown(scheme: str, name: str) -> None:
    """In every block; the page manager serves all blocks at once, and a decoder without a gate has no product."""
    seen = {(layer, unit) for layer, unit, _ in recorded(name, scheme)[0]}
    missing = {(layer, unit) for layer in range(2) for unit in schemes.taps(schemes.parse(scheme))} - seen
    absent = set() if prepared(name, scheme).model.gated else {(0, "index_product"), (1, "index_product")}

    assert missing - {place for place in missing if place[1] in RARE} <= absent | {(1, "page_manager")}


class Ran:
    """A prompt under `kllm-a4`: its cases, and what the model computed."""

    def __init__(self, name: str) -> None:
        self.parts, self.cases = prepared(name, "kllm-a4"), []
        self.attention: dict[int, Any] = {}  #: by block
        self.outputs: dict[tuple[int, str], np.ndarray] = {}  #: outputs of single linear layers
        show, linear = Taps.attention, Blocks.linear

        def showing(taps: Taps, x: np.ndarray, attention: Any, cache: Any) -> None:
            self.attention[taps._layer] = attention
            show(taps, x, attention, cache)

        def keeping(blocks: Blocks, layer: int, names: Any, x: np.ndarray) -> Any:
            record = linear(blocks, layer, names, x)
            self.outputs[layer, names[0]] = record.outputs[0]
            return record

        with mock.patch.object(Taps, "attention", showing), mock.patch.object(Blocks, "linear", keeping):
            models.session(self.parts, lambda *call: self.cases.append(call)).append(TEXT[:PROMPT])

    def at(self, unit: str, part: str) -> list[Any]:
        """Cases of a unit, of a tensor of every block."""
        return [case for _, name, case in self.cases if name == unit and case.source["tensor"].endswith(f".{part}")]


ran = cache(Ran)
names = pytest.mark.parametrize("name", NAMES)


@names
def test_logits_of_kllm_go_through_rule_of_block(name: str) -> None:
    """D-kllm-65: the answer of the product of q and the first key, capped or with its slope, is what softmax takes."""
    run, sizes = ran(name), prepared(name, "kllm-a4").model
    for case in run.at("index_matmul", "logits"):
        layer, query = case.source["layer"], case.source["token"]
        rule, logit = sizes.score_rule(layer), fp16.values(evaluated("index_matmul", case).y)[0]
        if rule.cap:
            quotient = np.float16(np.float64(logit) / rule.cap)
            logit = np.float16(rule.cap * float(np.float16(np.tanh(np.float64(quotient)))))
        if rule.slopes:
            logit = np.float16(float(logit) + float(np.float16(np.float32(rule.slopes[0]) * np.float32(-query))))

        assert run.attention[layer].logits[query, 0] == logit


@names
def test_scores_of_kllm_are_softmax_of_visible_keys(name: str) -> None:
    """Its result is the row of scores, with zeros outside the window of the block."""
    run = ran(name)
    assert {case.source["layer"] for case in run.at("functional", "logits")} == {0, 1}
    for case in run.at("functional", "logits"):
        layer, query = case.source["layer"], case.source["query"]
        window = run.parts.model.score_rule(layer).window
        scores = run.attention[layer].scores.p

        assert query + 1 == min(20, window or 20)
        assert np.array_equal(evaluated("functional", case).y.ravel(), scores[query, : query + 1].view(np.uint16))
        assert not window or not scores[PROMPT - 1, : PROMPT - window].view(np.uint16).any()


@names
@pytest.mark.parametrize("part", ["o", "down"])
def test_products_of_kllm_are_outputs_of_layer(name: str, part: str) -> None:
    """A bias is added afterwards (D-kllm-40)."""
    run = ran(name)
    cases = run.at("index_matmul", part)

    assert [case.source["layer"] for case in cases] == [0, 1]
    for case in cases:
        layer, place = case.source["layer"], (case.source["token"], case.source["column"])
        answer = float(fp16.values(evaluated("index_matmul", case).y)[0])
        bias = f"blk.{layer}.{part}.bias"
        if bias in run.parts.model.shapes:
            answer += float(np.float16(models.load(name).tensor(bias)[place[1]]))
        assert run.outputs[layer, part][place] == np.float16(answer)
