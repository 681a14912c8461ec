"""Cases of the taps of a Harmonia scheme: golden cases with values that the scheme used."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refemu import models
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models import schemes
from refemu.models.machine import runner
from refemu.models.schemes.harmonia import taps
from refemu.models.schemes.harmonia.cache import HarmoniaCache
from refemu.models.schemes.harmonia.layers import Harmonia
from refemu.models.schemes.harmonia.linear import Linear
from refemu.models.schemes.harmonia.taps import Taps
from refemu.models.taps import Watch
from refemu.units.unit import Cases
from tests.models.schemes.tap_cases import evaluated, require_ports

IDS = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man who, for his own amusement, never took")
ALL = {
    "bfp_accumulator",
    "bfp_aligner",
    "bfp_converter",
    "bfp_pe",
    "bfp_pe_array",
    "bit_allocator",
    "fdgf",
    "fp2half",
    "k_offset",
    "sub_pe",
    "v_grouper",
}


Place = tuple[Any, int]  #: a tensor or a block, and the first token of the call


@dataclass
class Numbers:
    """What the model computed in a prompt of 100 tokens, and in a decode step."""

    sums: dict[Place, np.ndarray] = field(default_factory=dict)  #: of linear layers in FP32, by the first of them
    codes: dict[Place, BfpTensor] = field(default_factory=dict)  #: of their inputs
    queries: dict[Place, np.ndarray] = field(default_factory=dict)
    contexts: dict[Place, np.ndarray] = field(default_factory=dict)
    caches: dict[int, HarmoniaCache] = field(default_factory=dict)


@cache
def prepared(scheme: str = "harmonia-kv4") -> Any:
    return models.prepare("tiny", scheme)


@cache
def recorded(scheme: str = "harmonia-kv4") -> list[tuple[int, str, Cases]]:
    """Every call of the tap in a prompt and a decode step."""
    calls: list[tuple[int, str, Cases]] = []
    session = models.session(prepared(scheme), lambda *call: calls.append(call))
    session.append(IDS[:100])
    session.append(IDS[100:101])
    return calls


@cache
def computed() -> Numbers:
    """The numbers of the same run."""
    numbers, finish, linear, attention = Numbers(), Linear.finish, Taps.linear, Harmonia.attention

    def at(rows: np.ndarray) -> int:
        return 0 if len(rows) > 1 else 100

    def finishing(self: Linear, y: np.ndarray) -> Any:
        numbers.sums[self.names[0], at(y)] = y
        return finish(self, y)

    def showing(self: Taps, layers: Linear, x: np.ndarray, a: BfpTensor) -> None:
        numbers.codes[layers.names[0], at(x)] = a
        linear(self, layers, x, a)

    def attending(self: Harmonia, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        numbers.queries[layer, at(q)], numbers.caches[layer] = q, cache
        return numbers.contexts.setdefault((layer, at(q)), attention(self, layer, q, cache, watch))

    with (
        mock.patch.object(Linear, "finish", finishing),
        mock.patch.object(Taps, "linear", showing),
        mock.patch.object(Harmonia, "attention", attending),
    ):
        session = models.session(prepared(), lambda *call: None)
        session.append(IDS[:100])
        session.append(IDS[100:101])
    return numbers


def words(y: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(y, np.float32).view(np.uint32)


def place(case: Cases) -> Place:
    return case.source["tensor"].removesuffix(".input"), case.source["first_token"]


def eight(case: Cases) -> slice:
    """The rows of the array that hold the token of a case."""
    first = case.source["token"] // 8 * 8
    return slice(first, first + 8)


def cases(unit: str, tensor: str = "", scheme: str = "harmonia-kv4") -> list[Cases]:
    return [case for _, name, case in recorded(scheme) if name == unit and tensor in case.source["tensor"]]


@pytest.mark.parametrize("scheme", ["harmonia-kv4", "harmonia-kv8", "harmonia-kv4-naive:preset=exact"])
def test_every_case_fits_the_ports_of_its_unit(scheme: str) -> None:
    require_ports(recorded(scheme))


def test_every_unit_is_shown_in_every_block() -> None:
    assert {(layer, unit) for layer, unit, _ in recorded()} == {(layer, unit) for layer in range(3) for unit in ALL}
    assert set(schemes.taps(prepared().config)) == ALL


@pytest.mark.parametrize(
    ("scheme", "absent"),
    [
        ("harmonia-kv8", {"bit_allocator", "k_offset"}),
        ("harmonia-kv4:act_mantissa=6", {"bfp_accumulator", "bfp_pe", "bfp_pe_array", "sub_pe"}),
        ("harmonia-kv4:weights=fp16", {"bfp_accumulator", "bfp_pe", "bfp_pe_array", "sub_pe"}),
        ("harmonia-kv4:high=6", set()),
        ("harmonia-kv4:group=64", ALL - {"bit_allocator", "fdgf", "fp2half", "k_offset"}),
        ("harmonia-kv4:rounding=floor", set()),
        ("harmonia-kv4:preset=exact", {"v_grouper"}),
    ],
)
def test_what_no_unit_computes_is_not_shown(scheme: str, absent: set[str]) -> None:
    """Widths and groups that the PE does not have run on the dot products; their taps are absent.

    The V grouper keeps the sign of a zero, which the exact preset drops.
    """
    config: Any = schemes.parse(scheme)

    assert set(schemes.taps(config)) == ALL - absent


def test_taps_change_no_bit() -> None:
    found = []
    for tap in (None, lambda *call: None):
        session = models.session(prepared(), tap)
        found.append((session.append(IDS[:70]).tobytes(), session.append(IDS[70:72]).tobytes(), session.counters))

    assert found[0] == found[1]


def test_without_a_tap_no_case_is_made() -> None:
    class Some:
        units = ("fp2half",)

        def __init__(self) -> None:
            self.seen: set[str] = set()

        def __call__(self, layer: int, unit: str, case: Cases) -> None:
            self.seen.add(unit)

    tap = Some()
    models.run("tiny", IDS[:4], prepared(), taps=tap)

    assert tap.seen == {"fp2half"}


def test_pe_sum_equals_the_model() -> None:
    """The first output of every linear layer, and a column of the context after FP2Half: over all groups."""
    products = [case for case in cases("bfp_pe") if place(case) in computed().sums]
    mixed = cases("bfp_pe", "context")

    assert {place(case) for case in products} == set(computed().sums)
    for case in products:
        y = computed().sums[place(case)]
        assert evaluated("bfp_pe", case).acc[0, -1] == words(y[case.source["token"], 0])
    assert len(mixed) == 6
    for case in mixed:
        last = evaluated("bfp_pe", case).acc[:, -1].view(np.float32)
        context = computed().contexts[case.source["layer"], case.source["first_token"]]
        assert prepared().units.half(last)[0] == context[-1, 0]


def test_pe_score_equals_the_model() -> None:
    """The last query of a prompt, and a decode step's, times the key that the case names by its bits."""
    parts, found = prepared().units, cases("bfp_pe", "logits")

    assert len(found) == 12
    for case in found:
        layer, first = case.source["layer"], case.source["first_token"]
        query = computed().queries[layer, first][-1:, 0]
        keys, _ = replayed(first + 1 if first else 100)[layer].held().head(0)
        sums = parts.dot(parts.encode(parts.config.format(8), parts.words(query)), keys)
        key = 0 if case.source["tensor"].endswith("8 bits") else 32
        assert evaluated("bfp_pe", case).acc[0, -1] == words(sums[0, key])


@cache
def replayed(tokens: int) -> Any:
    """The caches after a prompt of 100 tokens, and the further steps of `tokens`."""
    session = models.session(runner.observed(prepared(), lambda *call: None))
    session.append(IDS[:100])
    if tokens > 100:
        session.append(IDS[100:tokens])
    return session.caches


def test_array_tile_equals_the_model() -> None:
    """Eight tokens by sixteen outputs over all groups; a decode step has one row. FP2Half reads its columns."""
    found, halves = cases("bfp_pe_array"), cases("fp2half")

    assert {place(case) for case in found} == {place(case) for case in halves} == set(computed().sums)
    assert {case.config for case in found if "down" in case.source["tensor"]} == {"groups=3"}
    assert {case.config for case in found if "down" not in case.source["tensor"]} == {"paper"}
    for case, half in zip(found, halves, strict=True):
        y = computed().sums[place(case)][eight(case), :16]
        wide = np.zeros((8, 16), np.float32)
        wide[: len(y)] = y
        result = evaluated("bfp_pe_array", case)
        shown = np.where(result.valid, result.acc, 0).reshape(8, 16)
        assert np.array_equal(shown, words(wide)) and result.valid.sum() == y.size
        assert np.array_equal(half.inputs["x"], words(wide.T))
        y16 = evaluated("fp2half", half).y.astype(np.uint16).view(np.float16)
        assert np.array_equal(y16, prepared().units.half(wide.T))


def test_codes_are_those_of_the_model() -> None:
    """The group of the largest value at the aligner, and the block around it at the converter."""
    for case, whole in zip(cases("bfp_aligner"), cases("bfp_converter", "input"), strict=True):
        codes, token, rows = computed().codes[place(case)], case.source["token"], eight(case)
        group = int(whole.why.rpartition(" ")[2])
        some = slice(32 * group, 32 * group + 32)
        aligned, (sign, mantissa, exponent) = evaluated("bfp_aligner", case), put_out(whole)
        count = len(codes.mantissa[rows])
        assert np.array_equal(aligned.mantissa.reshape(-1), codes.mantissa[token, some])
        assert np.array_equal(aligned.sign.reshape(-1), codes.sign[token, some])
        assert np.array_equal(mantissa[:, :count].T, codes.mantissa[rows, some])
        assert np.array_equal(sign[:, :count].T, codes.sign[rows, some])
        assert np.array_equal(exponent[0, :count], codes.exponent[rows, group])


def put_out(case: Cases) -> tuple[np.ndarray, ...]:
    """Signs, mantissas and exponents of the columns that the converter puts out, (columns, lanes)."""
    result = evaluated("bfp_converter", case)
    out = result.out_valid[0] > 0
    return result.sign[0, out], result.mantissa[0, out], result.exponent[0, out]


def test_cached_values_equal_converter_and_grouper() -> None:
    """At 100 tokens no group is low: 32 tokens of 16 channels, and every token of KV head 0, an open group too."""
    blocks, grouped = cases("bfp_converter", ".v"), cases("v_grouper")

    assert [case.source["layer"] for case in blocks] == [case.source["layer"] for case in grouped] == [0, 1, 2]
    for block, case in zip(blocks, grouped, strict=True):
        sign, mantissa, exponent = replayed(100)[case.source["layer"]].held().v
        signs, mantissas, exponents = (codes.reshape(16, 32).T for codes in put_out(block))
        assert np.array_equal(mantissas, mantissa[:32, 0]) and np.array_equal(signs, sign[:32, 0])
        assert np.array_equal(exponents, np.tile(exponent[0, 0], (32, 1)))
        result = evaluated("v_grouper", case)
        assert case.config == "channels=16" and result.tokens[0, -1] == 100
        for group, last in enumerate((31, 63, 95, 99)):
            count, some = result.count[0, last], slice(32 * group, last + 1)
            assert np.array_equal(result.mantissa[0, last].reshape(32, 16)[:count], mantissa[some, 0])
            assert np.array_equal(result.sign[0, last].reshape(32, 16)[:count], sign[some, 0])
            assert np.array_equal(result.exponent[0, last], exponent[group, 0])


def test_offsets_and_keys_are_those_of_the_cache() -> None:
    """All channels of all tokens of the prompt."""
    found = cases("k_offset")

    assert [(case.source["layer"], case.config) for case in found] == [(0, "paper"), (1, "paper"), (2, "paper")]
    for case in found:
        made, shown = replayed(100)[case.source["layer"]], evaluated("k_offset", case)
        assert np.array_equal(shown.offset[0, -1], made.offset) and made.offset.any()
        assert np.array_equal(shown.k_out[0][shown.out_valid[0] == 1], made.words()[0].reshape(100, 32))


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ("offset_scope=head", "channels=32,offset_scope=head,heads=2"),
        ("offset_k=3,offset_sign=unsigned", "channels=32,offset_k=3,offset_sign=unsigned"),
    ],
)
def test_offsets_of_other_rules_have_own_configurations(options: str, config: str) -> None:
    calls: list[tuple[int, str, Cases]] = []
    parts = runner.observed(prepared(f"harmonia-kv4:{options}"), lambda *call: None)
    session = models.session(parts, lambda *call: calls.append(call))
    session.append(IDS[:40])
    [case] = [case for layer, unit, case in calls if (layer, unit) == (1, "k_offset")]
    shown = evaluated("k_offset", case)

    assert case.config == config
    assert np.array_equal(shown.offset[0, -1], session.caches[1].offset)
    assert np.array_equal(shown.k_out[0][shown.out_valid[0] == 1], session.caches[1].words()[0].reshape(40, 32))


def test_falls_are_those_of_the_cache() -> None:
    found = cases("bit_allocator")

    assert len(found) == 6
    for case in found:
        first, layer = case.source["first_token"], case.source["layer"]
        made = replayed(first + 1 if first else 100)[layer]
        result = evaluated("bit_allocator", case)
        low = made.rule.low_tokens(made.taken)
        assert (result.low_tokens[0, -1], result.low_groups[0, -1]) == (len(low), 0)
        assert not (made.held().k[1][low.start : low.stop] & 15).any()


def test_every_event_of_a_product_is_shown() -> None:
    """From the start until it is done, once: what is stored is the output of the model's first layer there."""
    found, names = cases("fdgf"), {"q": 64, "o": 64, "gate": 96, "down": 64}

    assert len(found) == 2 * 12
    for case in found:
        result, output = evaluated("fdgf", case), names[case.source["tensor"].rpartition(".")[2]]
        code, tokens = result.code[0], 100 if case.source["first_token"] == 0 else 1
        assert code[0] == 1 and code[-1] == 7 and np.count_nonzero(code == 7) == 1
        assert result.count[0, code == 6].sum() == tokens * output
        assert case.source["largest"] == len(code)


def test_product_with_too_many_events_is_not_shown() -> None:
    calls: list[Cases] = []
    with mock.patch.object(taps, "LONGEST", 100):
        models.run("tiny", IDS[:64], prepared(), taps=lambda layer, unit, case: calls.append(case))
    names = [case.source["tensor"] for case in calls if case.why == "every event of a product"]

    assert names == [f"blk.{layer}.{name}" for layer in range(3) for name in ("q", "o")]
    assert taps.duration(64, 64, 64) == 70 and taps.duration(64, 64, 96) == 105


def test_sums_of_sub_pes_are_those_of_pe() -> None:
    """In every mode; the accumulator makes the same of them."""
    seen = set()
    for pe, sub, acc in zip(cases("bfp_pe"), cases("sub_pe"), cases("bfp_accumulator"), strict=True):
        whole, sums = evaluated("bfp_pe", pe), evaluated("sub_pe", sub)
        assert np.array_equal(sums.psum, acc.inputs["psum"][0])
        assert np.array_equal(evaluated("bfp_accumulator", acc).acc, whole.acc)
        seen |= set(pe.inputs["mode"].ravel().tolist())

    assert seen == {0, 1, 2}


def test_scores_with_values_mix_both_widths() -> None:
    """[harmonia §III-B] at 100 tokens only tokens are low; groups of V keep 8 bits, the last one is open."""
    modes = {case.source["tensor"]: case.inputs["mode"].ravel().tolist() for case in cases("bfp_pe", "blk.1")}

    assert modes["blk.1.context"] == [2, 2, 2, 2]
    assert (modes["blk.1.logits, 8 bits"], modes["blk.1.logits, 4 bits"]) == ([2], [1])


def test_later_calls_say_where_they_begin() -> None:
    starts = [case.source["first_token"] for _, _, case in recorded()]

    assert set(starts) == {0, 100} and starts == sorted(starts)


def test_taps_repr() -> None:
    assert repr(Taps(prepared().units, 2, Watch(), prepared().scoring(2))) == "Taps(layer=2)"


@pytest.mark.long
@pytest.mark.parametrize("bias", ["after", "accumulator"])
def test_fp2half_reads_a_bias_that_the_accumulator_adds(bias: str) -> None:
    """D-harmonia-29: after FP2Half it is added to the result of the unit."""
    layers: dict[str, tuple[Linear, np.ndarray]] = {}
    finish, calls = Linear.finish, list[Cases]()

    def finishing(self: Linear, y: np.ndarray) -> Any:
        layers[self.names[0]] = self, np.concatenate(finish(self, y), axis=1)
        return finish(self, y)

    ready = models.prepare("tiny-opt", f"harmonia-kv4:bias_add={bias}")
    with mock.patch.object(Linear, "finish", finishing):
        models.run("tiny-opt", IDS[:8], ready, taps=lambda _, unit, case: calls.extend([case] * (unit == "fp2half")))

    assert len(calls) == len(layers)
    for case in calls:
        linear, y = layers[case.source["tensor"]]
        found = evaluated("fp2half", case).y.astype(np.uint16).view(np.float16).astype(np.float32).T
        if bias == "after":
            found = ready.units.half(found + linear.bias[:16])
        assert np.array_equal(found, y[:, :16])
