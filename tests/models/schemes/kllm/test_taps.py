"""Cases of the taps of a KLLM scheme: golden cases with values that the scheme used."""

from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refemu import models, units
from refemu.arith import fp16
from refemu.models import schemes
from refemu.models.schemes.kllm import taps
from refemu.models.schemes.kllm.block import Blocks
from refemu.models.schemes.kllm.operands import Operands
from refemu.models.taps import Watch
from refemu.units.unit import Cases
from tests.models.schemes.tap_cases import evaluated, require_ports

IDS = list(b"It is a truth. It is a truth")
ALL = {
    "concat",
    "index_counter",
    "weighted_sum",
    "orizuru",
    "clustering",
    "index_matmul",
    "index_norm",
    "functional",
    "score_quantizer",
    "index_function",
    "index_product",
}


@cache
def prepared(scheme: str = "kllm-a4") -> Any:
    return models.prepare("tiny", scheme, calibration=list(b"a truth universally acknowledged" * 4))


@cache
def recorded(scheme: str = "kllm-a4") -> list[tuple[int, str, Cases]]:
    """Every call of the tap in one run."""
    calls: list[tuple[int, str, Cases]] = []
    models.run("tiny", IDS, prepared(scheme), taps=lambda *call: calls.append(call))
    return calls


def cases(unit: str, scheme: str = "kllm-a4") -> list[Cases]:
    return [case for _, name, case in recorded(scheme) if name == unit]


@pytest.mark.parametrize(
    "scheme", ["kllm-a4", "kllm-a3", "kllm-a4-s", "kllm-a4:preset=exact", "kllm-a3:preset=exact,function_table=literal"]
)
def test_every_case_fits_the_ports_of_its_unit(scheme: str) -> None:
    require_ports(recorded(scheme))


def test_every_unit_is_shown_in_every_block() -> None:
    assert {(layer, unit) for layer, unit, _ in recorded()} == {(layer, unit) for layer in range(3) for unit in ALL}
    assert set(schemes.taps(prepared().config)) == ALL
    assert set(schemes.taps(prepared("kllm-a4-s").config)) == ALL - {"orizuru"}


def test_taps_change_no_bit() -> None:
    plain, tapped = (models.run("tiny", IDS, prepared(), taps=tap) for tap in (None, lambda *call: None))

    assert plain.logits.tobytes() == tapped.logits.tobytes()
    assert plain.counters == tapped.counters


def test_taps_listen_by_unit() -> None:
    class Some:
        units = ("concat",)

        def __init__(self) -> None:
            self.seen: set[str] = set()

        def __call__(self, layer: int, unit: str, case: Cases) -> None:
            self.seen.add(unit)

    tap = Some()
    models.run("tiny", IDS[:4], prepared(), taps=tap)

    assert tap.seen == {"concat"}


def encoded(full: str, ids: list[int]) -> Any:
    """An activation as the scheme encodes it."""
    kept = []
    encode = Operands.encode

    def watching(self: Operands, name: str, x: np.ndarray) -> Any:
        tensor = encode(self, name, x)
        kept.extend([tensor] if name == full else [])
        return tensor

    with mock.patch.object(Operands, "encode", watching):
        models.run("tiny", ids, prepared())
    return kept[0]


def test_clustering_finds_the_indices_of_the_scheme() -> None:
    tensor = encoded("blk.1.down_in", IDS)
    [case] = [case for case in cases("clustering") if case.source["tensor"] == "blk.1.down_in"]
    token = case.source["token"]
    inliers = tensor.index[token][~tensor.mask[token]]

    assert np.array_equal(evaluated("clustering", case).index, inliers)


def test_orizuru_pops_the_outliers_of_the_format() -> None:
    """Its pops, one at each end for 1 % of 64 values and of 96, are the outliers."""
    for name, config in (("attn_in", "n=64"), ("down_in", "n=96")):
        tensor = encoded(f"blk.2.{name}", IDS)
        [case] = [case for case in cases("orizuru") if case.source["tensor"] == f"blk.2.{name}"]
        found = evaluated("orizuru", case)
        popped = {int(found.max_index.ravel()[0]), int(found.min_index.ravel()[0])}

        assert case.config == config and units.find("orizuru").config(config)["k"] == 1
        assert popped == set(np.flatnonzero(tensor.mask[case.source["token"]]).tolist())


@pytest.mark.parametrize(("name", "size"), [("o", 64), ("down", 96)])
def test_product_is_complete_and_equals_the_model(name: str, size: int) -> None:
    """Every position of the reduction, so that y is the output of the layer; after a norm it is divided later."""
    outputs = {}
    linear = Blocks.linear

    def watching(self: Blocks, layer: int, names: Any, x: np.ndarray) -> Any:
        record = linear(self, layer, names, x)
        outputs[layer, tuple(names)] = record.outputs
        return record

    with mock.patch.object(Blocks, "linear", watching):
        models.run("tiny", IDS, prepared())
    whole = [case for case in cases("index_matmul") if case.source["tensor"].endswith(f".{name}")]

    assert len(whole) == 3
    for case in whole:
        source = case.source
        y = evaluated("index_matmul", case).y
        assert units.find("index_matmul").config(case.config)["k"] == size
        assert fp16.values(y)[0] == outputs[source["layer"], (name,)][0][source["token"], source["column"]]


def test_whole_vectors_of_the_other_units() -> None:
    """As many values as the tensors have: 96 of the feed-forward half, 64 of the others."""
    for case in cases("index_norm"):
        assert case.inputs["q"].shape == (1, 64)
    for case in cases("index_product"):
        assert case.inputs["a"].shape == (96,)
    for case in cases("concat"):
        k = 16 if case.source["tensor"].endswith("logits") else 96 if case.source["tensor"].endswith("down") else 64
        assert case.inputs["a"].shape == (k // 16, 16)
    for case in cases("clustering"):
        size = 96 if case.source["tensor"].split(".")[2] in ("gate", "up", "down_in") else 64
        assert size - 2 <= len(case.inputs["x"]) <= size


def test_column_counts_and_reduces_to_what_scheme_adds() -> None:
    for name in ("blk.0.o", "blk.2.gate"):
        counter, total = (
            next(case for case in cases(unit) if case.source["tensor"] == name)
            for unit in ("index_counter", "weighted_sum")
        )
        counts = evaluated("index_counter", counter).count[0, -1]
        assert np.array_equal(counts, total.inputs["count"][0])
        assert int(counts.sum()) >= 64 - 2


def test_softmax_and_scores_are_those_of_one_query() -> None:
    softmax, quantizer = cases("functional")[0], cases("score_quantizer")[0]
    p = fp16.values(evaluated("functional", softmax).y)

    assert softmax.source["query"] == 19 and quantizer.source["query"] == 15
    assert abs(float(p.sum()) - 1) < 0.01
    assert evaluated("score_quantizer", quantizer).q.max() == 15


def test_matmul_of_scores_reads_values_of_the_cache() -> None:
    [case] = [case for case in cases("index_matmul") if "integer" in case.config and case.source["layer"] == 0]

    assert case.inputs["a_index"].max() == 15
    assert np.array_equal(case.inputs["b_codebook"][0], prepared().operands.formats["blk.0.v"].codebook.values)


def test_norm_divides_the_centroids_of_the_first_weights() -> None:
    for case in cases("index_norm"):
        names = ("q", "k", "v") if case.source["tensor"].endswith("attn_in") else ("gate", "up")
        first = prepared().operands.group(case.source["layer"], names).weights[0]
        assert np.array_equal(case.inputs["weights"][0], first.tensor.codebook.values)


def test_later_calls_say_where_they_begin() -> None:
    calls: list[Cases] = []
    session = models.session(prepared(), lambda layer, unit, case: calls.append(case))
    session.append(IDS[:4])
    first = len(calls)
    session.append(IDS[4:6])

    assert {case.source["first_token"] for case in calls[:first]} == {0}
    assert {case.source["first_token"] for case in calls[first:]} == {4}


def test_without_fitting_configuration_no_tap_is_called() -> None:
    """Five bits of scores, a table of three bits: no unit is ready for them."""
    shown = {(unit, case.config) for _, unit, case in recorded("kllm-a4:score_bits=5")}

    assert not {name for unit, name in shown if unit == "score_quantizer"}
    assert not [name for unit, name in shown if unit == "index_matmul" and name == "integer"]


def test_integers_have_no_units() -> None:
    assert schemes.taps(schemes.parse("kllm-a4:quantizer=rtn")) == ()


def test_taps_repr() -> None:
    assert repr(taps.Taps(prepared().operands, 2, Watch())) == "Taps(layer=2)"
