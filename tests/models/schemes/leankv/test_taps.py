"""Cases of the taps of a LeanKV scheme: complete operations with the scheme's results."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

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
from refemu.models.schemes.leankv.engine import Engine
from refemu.models.schemes.leankv.pool import Plan, Pool
from refemu.models.schemes.leankv.steps import Units
from refemu.units.leankv import page_table
from refemu.units.leankv.paged_attention import get_scores
from refemu.units.unit import Cases
from tests.models.schemes.fp16.test_decoder import Small
from tests.models.schemes.leankv.plain import CHANGES
from tests.models.schemes.tap_cases import evaluated, require_ports

TINY = f"leankv:{CHANGES},align=4+4,page_bytes=112,window=4,t_low=0.02,t_high=0.1"  #: pages of 2 and 4 tokens
WIDE = "leankv:window=8,t_low=0.01,t_high=0.06"
TEXT = list(b"It is a truth universally acknowledged")
SIZES = ModelConfig(blocks=2, width=8, ffn=6, heads=4, kv_heads=2, head_dim=64, vocab=256, context=64)
Call = tuple[int, str, Cases]


class Run:
    """A session, every call of its tap, and what the scheme itself computed."""

    def __init__(self, scheme: str, wide: bool, prompt: int, steps: int) -> None:
        self.calls: list[Call] = []
        self.scores: list[Any] = []  #: significance of a prompt, layer by layer
        self.classes: list[list[Any]] = []  #: of a prompt, worker by worker
        self.plans: list[Plan] = []
        self.attended: list[tuple[np.ndarray, np.ndarray]] = []  #: out, scores afterwards; step by step, layer by layer
        config: Any = schemes.parse(scheme)
        model = Model("wide", SIZES, Small(SIZES), "") if wide else models.load("tiny")
        self.session: Any = models.session(models.prepare(model, config), lambda *call: self.calls.append(call))
        with ExitStack() as patches:
            for owner, name, keep in (
                (Units, "prompt", lambda pool, found: self.scores.append(found[1])),
                (Pool, "compress", lambda pool, found: self.classes.append(found)),
                (Pool, "plan", lambda pool, found, *rest: self.plans.append(found[0])),
                (Pool, "attend", self._attended),
            ):
                patches.enter_context(mock.patch.object(owner, name, watched(owner, name, keep)))
            self.session.append(TEXT[:prompt])
            if steps:
                self.session.append(TEXT[prompt : prompt + steps])

    @property
    def pool(self) -> Pool:
        """The pages of the first worker."""
        pool: Pool = self.session.caches.pools.pools[0]
        return pool

    def _attended(self, pool: Pool, found: np.ndarray, plan: Plan, layer: int, *rest: Any) -> None:
        cells, lengths = plan.cells[:, layer], plan.lengths[:, layer]
        self.attended.append((found, get_scores(pool.layouts, pool.images, cells, lengths)[0]))


def watched(owner: type, name: str, keep: Callable[..., None]) -> Callable[..., Any]:
    """A method that also hands its object, its answer and its arguments to `keep`."""
    method = getattr(owner, name)

    def watching(self: Any, *arguments: Any) -> Any:
        found = method(self, *arguments)
        keep(self, found, *(arguments if name in ("plan", "attend") else ()))
        return found

    return watching


@cache
def ran(scheme: str, wide: bool, prompt: int, steps: int) -> Run:
    """wide: heads of 64."""
    return Run(scheme, wide, prompt, steps)


def recorded(scheme: str, wide: bool, prompt: int, steps: int) -> tuple[Any, list[Call]]:
    """A session, and every call of its tap."""
    run = ran(scheme, wide, prompt, steps)
    return run.session, run.calls


def cases(calls: list[Call], unit: str) -> list[tuple[int, Cases]]:
    return [(layer, case) for layer, name, case in calls if name == unit]


def test_every_unit_is_tapped_for_all_heads() -> None:
    _, wide = recorded(WIDE, True, 20, 12)
    _, tiny = recorded(TINY, False, 8, 4)
    met = {name for _, name, _ in wide} | {name for _, name, _ in tiny}

    assert tuple(sorted(met)) == taps.UNITS == schemes.taps(schemes.SCHEMES["leankv"])
    for calls, layers in ((wide, 2), (tiny, 3)):
        for unit in set(taps.UNITS) - {"layer_step", "page_manager"}:
            assert {(layer, case.source["kv_head"]) for layer, case in cases(calls, unit)} == {
                (layer, head) for layer in range(layers) for head in (0, 1)
            }
        assert {layer for layer, _ in cases(calls, "layer_step")} == set(range(layers))
        assert {layer for layer, _ in cases(calls, "page_manager")} == {0}


SCHEMES = (
    (WIDE, True),
    (TINY, False),
    (f"{WIDE},preset=diffkv,alpha_quant=3.0", True),
    (f"{WIDE},high=K8V4_G12,low=K4V2_G24,workers=2", True),
    (f"{TINY},low=none,high=K4V4,policy=static,keep_percent=60,score_queries=3,gqa=mean,gqa_order=queries", False),
    (f"{TINY},order=sequential,fma=false,partition_tokens=8,softmax_div=recip_mul,sort=bitonic,scrub=true", False),
)


every = pytest.mark.parametrize(("scheme", "wide"), SCHEMES, ids=range(len(SCHEMES)))


@every
def test_every_case_has_the_ports_of_its_unit(scheme: str, wide: bool) -> None:
    require_ports(recorded(scheme, wide, 20, 3)[1])


@every
def test_significance_of_whole_prompt_is_that_of_scheme(scheme: str, wide: bool) -> None:
    run = ran(scheme, wide, 20, 3)
    shown = cases(run.calls, "significance")
    for layer, case in shown:
        found, model, head = evaluated("significance", case), run.scores[layer], case.source["kv_head"]
        for name in ("sum", "mean", "share"):
            assert getattr(found, name).ravel().tolist() == getattr(model, name)[head].tolist()
        assert found.sum.size == 20
    assert len(shown) == 2 * len(run.scores)


@every
def test_classes_of_whole_prompt_are_those_of_scheme(scheme: str, wide: bool) -> None:
    run = ran(scheme, wide, 20, 3)
    cls, order = (
        np.concatenate([getattr(classes, name) for [classes] in run.classes], axis=1) for name in ("cls", "order")
    )
    shown = cases(run.calls, "prompt_compressor")
    for layer, case in shown:
        found, head = evaluated("prompt_compressor", case), case.source["kv_head"]
        assert found.cls.ravel().tolist() == cls[layer, head].tolist()
        assert found.order.ravel().tolist() == order[layer, head].tolist()
    assert len(shown) == 2 * len(run.scores) and cls.shape[-1] == 20


@every
@pytest.mark.parametrize("steps", [0, 1])
def test_codes_are_those_in_the_page(scheme: str, wide: bool, steps: int) -> None:
    """A prompt and a step: words, scale and zero point of the group at the place of the token."""
    run = ran(scheme, wide, 20, steps)
    last = 19 + steps
    shown = [case for case in cases(run.calls, "kv_quantizer") if case[1].source["first_token"] == last * (steps > 0)]
    for layer, case in shown:
        found, words, meta = evaluated("kv_quantizer", case), *stored_group(run, layer, case)
        assert found.words.ravel()[: len(words)].tolist() == words.tolist()
        assert [int(found.scale.item()), int(found.zero.item())] == meta.tolist()
    pairs = {case.why.split()[0] for _, case in shown}
    assert pairs == {"key", "value"} and len(shown) >= 4 * len(run.scores)


def stored_group(run: Run, layer: int, case: Cases) -> tuple[np.ndarray, np.ndarray]:
    """Words and metadata of the group of a case as its page holds them."""
    source, tensor, pair = case.source, case.why.split()[0], case.why.split(" at ")[1].split(",")[0]
    pools = run.session.caches.pools
    per = 2 // len(pools.pools)
    pool, head = pools.pools[source["kv_head"] // per], source["kv_head"] % per
    section = [page.config.name for page in pool.layouts.sections].index(pair)
    page, stored = pool.layouts.sections[section], pool.stored([0])
    high, low = stored.lengths[0, layer, head].tolist()
    positions = stored.position[0, layer, head, : high + low].tolist()
    rank = positions.index(source["first_token"] + source["token"]) - high * section
    assert 0 <= rank < (high, low)[section]
    at = page_table.locate(pool.manager.cells([0])[0, layer, head, None], section, np.array([rank]), page.tokens)
    record = page.read(pool.images[int(at[0].item())], int(at[1].item()))
    codes, meta = (
        record[page.parts[name]] for name in (("key", "key_meta") if tensor == "key" else ("val", "val_meta"))
    )
    size = case.inputs["x"].shape[-1] * int(case.inputs["bits"].item()) // 16
    group = source["group"]
    return codes[group * size : (group + 1) * size], meta[2 * group : 2 * group + 2]


@every
def test_attention_over_pages_equals_that_of_the_layer(scheme: str, wide: bool) -> None:
    """The output that the layer uses next, and the scores after it."""
    run = ran(scheme, wide, 20, 3)
    workers, layers = len(run.classes), len(run.scores)
    shown = cases(run.calls, "paged_attention")
    for number, (layer, case) in enumerate(shown):
        step, head = case.source["first_token"] - 20, case.source["kv_head"]
        worker, own = divmod(head, 2 // workers)
        out, scores = run.attended[(step * layers + layer) * workers + worker]
        found, stored = evaluated("paged_attention", case), case.source["largest"]
        assert number == (step * layers + layer) * 2 + head
        assert fp16.values(found.out).ravel().tolist() == out[0, own].ravel().tolist()
        assert found.score.ravel()[:stored].tolist() == scores[0, own, :stored].tolist()
    assert len(shown) == 3 * layers * 2


@every
def test_requests_of_layer_are_those_of_scheme(scheme: str, wide: bool) -> None:
    """Decisions, outputs and scores of every step, and the records in the pages after the last one."""
    run, differing = ran(scheme, wide, 20, 3), list[str]()
    shown = [entry for entry in cases(run.calls, "layer_step") if entry[1].source["largest"] == 3]
    for layer, case in shown:
        differing += request_differs(run, layer, case)
    assert len(shown) == (3 if len(run.classes) == 1 else 2) * len(run.scores)  # both heads, and each alone
    assert differing == []


def request_differs(run: Run, layer: int, case: Cases) -> list[str]:
    """Ports of the last three events that are not the scheme's."""
    unit, found = units.find("layer_step"), evaluated("layer_step", case)
    first, differing, config = case.source["kv_head"], list[str](), unit.config(case.config)
    heads, workers, layers = config["kv_heads"], len(run.classes), len(run.scores)
    worker, own = divmod(first, 2 // workers)
    for step in range(3):
        plan = run.plans[step * workers + worker]
        out, scores = run.attended[(step * layers + layer) * workers + worker]
        event = {
            port.name: getattr(found, port.name)[0, step - 3].reshape(heads, -1) for port in unit.ports(config).outputs
        }
        for head in range(heads):
            at, stored = (0, layer, own + head), int(plan.lengths[0, layer, own + head].sum())
            same = {name: event[name][head, 0] == getattr(plan.decided, name)[at] for name in DECISIONS}
            same["out"] = (fp16.values(event["out"][head]) == out[0, own + head].ravel()).all()
            same["scores"] = (event["scores"][head, :stored] == scores[0, own + head, :stored]).all()
            if step == 2:
                page, (image, slot) = run.session.caches.pools.pools[worker], plan.high[at]
                high = page.layouts.high
                record, codes = high.read(page.images[image], slot), high.parts["score"].start
                same["written"] = (event["written"][head, :codes] == record[:codes]).all()
            differing += [f"{layer} {head} {step} {name}" for name, equal in same.items() if not equal]
    return differing


DECISIONS = ("choice", "victim", "low_slot")


@every
def test_records_of_request_are_those_in_pages(scheme: str, wide: bool) -> None:
    """kv_compressor: codes, metadata and positions of all tokens of a head, after the prompt and the last step."""
    run = ran(scheme, wide, 20, 3)
    shown = [entry for entry in cases(run.calls, "kv_compressor") if entry[1].source["largest"] == 3]
    pools = run.session.caches.pools
    for layer, case in shown:
        found = evaluated("kv_compressor", case)
        worker, head = divmod(case.source["kv_head"], 2 // len(pools.pools))
        pool = pools.pools[worker]
        cells, lengths = pool.manager.cells([0])[0, layer, head], pool.manager.lengths([0])[0, layer, head]
        assert [int(found.n_high[0, -1]), int(found.n_low[0, -1])] == lengths.tolist()
        assert case.inputs["op"].shape[1] == case.source["kept"] + 3
        for section, page in enumerate(pool.layouts.sections[: 1 + (pool.layouts.low is not None)]):
            words = (found.high, found.low)[section][0, -1].reshape(-1, page.size // 2).astype(np.uint16)
            scores = page.parts["score"]
            for slot in range(int(lengths[section])):
                number, place = divmod(slot, page.tokens)
                image = pool.images[cells[number if section == 0 else len(cells) - 1 - number]]
                same = page.read(words[number], place) == page.read(image, place)
                same[scores] = True  # attention adds to it
                assert same.all(), (layer, head, section, slot)
    assert len(shown) == 2 * len(run.scores)


DECIDING = {  #: scheme -> the configuration that shows it
    TINY: "wide",
    f"{TINY},score_rule=cumulative": "wide_cumulative",
    f"{TINY},gqa=mean": "wide",
    f"{TINY},low=none": "wide",
    f"{TINY},preset=diffkv,alpha_quant=3.0": "diffkv",
    f"{TINY},low=none,policy=static,keep_percent=50": "static",
}


@pytest.mark.parametrize(("scheme", "config"), DECIDING.items())
def test_decisions_are_schemes_for_every_head_and_step(scheme: str, config: str) -> None:
    """The port shows what the head stored, no more and no less, so the unit answers what the model did."""
    prompt, steps = (20, 10) if "static" in scheme else (28, 10)
    run = ran(scheme, False, prompt, steps)
    found = cases(run.calls, "generation_compressor")
    stored = [case.source["stored"] for _, case in found]

    assert len(found) == steps * 3 * 2 and found[-1][1].inputs["n"].tolist() == [prompt + steps - 1]
    assert {case.config for _, case in found} == {config}
    assert [int(case.inputs["n_high"][0]) + int(case.inputs["n_low"][0]) for _, case in found] == stored
    assert contradictions([case for _, case in found]) == []
    require_decisions(run, prompt)
    pool = run.pool.stored([0])
    assert max(stored) <= pool.lengths.sum(axis=-1).max() and (config == "static" or max(stored) > 16)


def require_decisions(run: Run, prompt: int) -> None:
    """Every choice and every slot is the scheme's."""
    for layer, case in cases(run.calls, "generation_compressor"):
        plan, found = run.plans[case.source["first_token"] - prompt], evaluated("generation_compressor", case)
        for name in ("choice", "victim", "low_slot", "delta_high", "delta_low"):
            decided = getattr(plan.decided, name)[0, layer, case.source["kv_head"]]
            assert getattr(found, name).tolist() == [decided], name


def contradictions(shown: list[Cases]) -> list[str]:
    """Reasons of the cases whose unit makes another choice."""
    unit, wrong = units.find("generation_compressor"), list[str]()
    for config in sorted({case.config for case in shown}):
        own = [case for case in shown if case.config == config]
        rows = {name: np.concatenate([case.inputs[name] for case in own]) for name in own[0].inputs}
        choices = unit.evaluate(unit.config(config), rows).choice.tolist()
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
def test_schemes_without_ready_configuration_have_their_own(changed: str) -> None:
    """With as many slots as the pages of a table entry, 1025 or 1026, have for tokens of the smaller precision."""
    run = ran(f"{TINY},{changed}", False, 8, 2)

    assert {case.config.partition(",")[0] for _, case in cases(run.calls, "generation_compressor")} == {
        "slots=2050" if "low=none" in changed else "slots=4104"
    }
    require_decisions(run, 8)


def test_heads_larger_than_ready_configurations_are_complete() -> None:
    """With a budget of half the tokens, heads with more than 16 slots."""
    run = ran(f"{TINY},low=none,policy=static,keep_percent=50", False, 30, 6)
    found = cases(run.calls, "generation_compressor")
    wide = [int(case.inputs["n"][0]) for _, case in found if case.config != "static"]

    assert wide == [n for n in (34, 35) for _ in range(6)]
    assert {case.inputs["score"].shape for _, case in found if case.config != "static"} == {(1, 2050)}
    require_decisions(run, 30)


REAL = [pytest.mark.model, pytest.mark.slow]


@pytest.mark.parametrize(
    ("model", "scheme", "tokens", "choices"),
    [
        ("tiny", TINY, 64, {"A3", "B1", "B2", "C"}),
        pytest.param("smollm2-135m", "leankv", 96, {"W", "A1", "A2", "B1", "B2", "C"}, marks=REAL),
    ],
)
def test_no_row_of_generated_set_contradicts_its_description(
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


@every
def test_the_manager_has_all_calls_of_all_layers(scheme: str, wide: bool) -> None:
    """Its table and its free pages after the last call are those of the session's own manager."""
    run = ran(scheme, wide, 20, 3)
    shown, manager = cases(run.calls, "page_manager"), run.pool.manager
    *_, (_, case) = shown
    found = evaluated("page_manager", case)

    assert [case.source["largest"] for _, case in shown] == [2, 3, 4, 5]
    assert case.inputs["op"].tolist() == [[0, 1, 2, 2, 2]]
    assert found.tokens[0, -1].tolist() == manager.lengths([0]).ravel().tolist()
    assert found.used[0, -1].tolist() == manager.used([0]).ravel().tolist()
    assert found.cells[0, -1].tolist() == manager.cells([0]).ravel().tolist()
    assert found.free[0, -1] == manager.free


def test_the_manager_of_an_engine_has_all_requests() -> None:
    """Three requests in two slots, each with its prompt, its steps and its end."""
    calls: list[Call] = []
    engine = Engine(models.prepare(models.load("tiny"), TINY), slots=2, taps=lambda *call: calls.append(call))
    for first in range(3):
        engine.submit(TEXT[first : first + 6 + first], 3)
    ops: set[int] = set()
    while (done := engine.step()) is not None:
        *_, (_, case) = cases(calls, "page_manager")
        require_ports([(0, "page_manager", case)])
        found, manager = evaluated("page_manager", case), engine.pools.pools[0].manager
        ops |= set(case.inputs["op"].ravel().tolist())
        assert found.free[0, -1] == manager.free or done.kind == "finish"
    assert ops == {0, 1, 2, 3} and case.config.startswith("pages=12300,layers=3")


def test_calls_that_are_taken_back_are_not_shown() -> None:
    calls: list[Call] = []
    session: Any = models.session(models.prepare(models.load("tiny"), TINY), lambda *call: calls.append(call))
    session.append(TEXT[:8])
    mark = session.caches.mark()
    session.append(TEXT[8:10])
    session.caches.rewind(8, mark)
    session.append(TEXT[8:9])
    *_, (_, case) = cases(calls, "page_manager")

    assert case.inputs["op"].tolist() == [[0, 1, 2]]


def test_prompt_of_one_token_and_unquantized_group() -> None:
    run = ran(f"{TINY},high=K8V4_G12,low=none,page_bytes=none", False, 1, 2)
    require_ports(run.calls)

    assert {case.why.split()[0] for _, case in cases(run.calls, "kv_quantizer")} == {"key"}
    assert cases(ran(f"{WIDE},high=K16V16,low=none", True, 4, 1).calls, "kv_quantizer") == []


def test_what_a_set_of_tiny_shows() -> None:
    """32 tokens and 32 steps; ready configurations have the sizes of three units, so no window or page is cut."""
    cases_ = model_cases.tapped(model_cases.source("tiny", TINY, None, 64))
    pages = "head_size=16,page_bytes=112,k_vec=1,v_group=2,align=4+4"
    pool = "pages=6150,layers=3,max_len=2048,slots=1,table_tokens=2"
    entry, vectors = "max_len=64,table_extra=2,table_tokens=2", "k_vec=1,v_group=2,align=4+4"

    assert {name: len(shown) for name, shown in cases_.items()} == {
        ("significance", "tokens=32"): 2,
        ("prompt_compressor", "paper"): 4,
        ("kv_quantizer", "features=16"): 8,
        ("generation_compressor", "wide"): 8,
        ("paged_attention", f"{pages},cells=1025"): 2,
        ("page_manager", pool): 1,
        ("layer_step", f"{pages},kv_heads=1,heads=2,pages=34,{entry}"): 2,
        ("layer_step", f"{pages},kv_heads=2,heads=2,pages=68,{entry}"): 2,
        ("kv_compressor", f"head_size=16,page_bytes=112,high_pages=32,low_pages=16,{vectors}"): 2,
    }
    assert cases_["page_manager", pool][0].inputs["op"].shape == (1, 34)


@pytest.mark.parametrize("unit", ["significance", "generation_compressor"])
def test_golden_cases_of_a_run_show_both_phases(unit: str) -> None:
    source = model_cases.source("tiny", TINY, "It is a truth universally", 24)
    found = model_cases.tapped(source, units_=[unit])
    expected = {"significance": {(unit, "tokens=12")}, "generation_compressor": {(unit, "paper"), (unit, "wide")}}[unit]
    first = {case.source["first_token"] for shown in found.values() for case in shown}

    assert set(found) == expected
    assert first >= {0 if unit == "significance" else 23}
