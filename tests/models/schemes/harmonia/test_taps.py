"""What the taps of a Harmonia scheme are told: golden cases whose values the scheme really used."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.models import schemes
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
        ("harmonia-kv4:high=6", {"bit_allocator", "v_grouper"}),
        ("harmonia-kv4:group=64", ALL - {"fdgf", "fp2half", "k_offset"}),
        ("harmonia-kv4:rounding=floor", {"bfp_aligner", "bfp_converter"}),
    ],
)
def test_what_no_unit_computes_is_not_shown(scheme: str, absent: set[str]) -> None:
    """Widths and groups that the PE does not have run on the dot products; their taps are absent."""
    config: Any = schemes.parse(scheme)

    assert set(schemes.taps(config)) == ALL - absent


def test_taps_change_no_bit() -> None:
    found = []
    for tap in (None, lambda *call: None):
        session = models.session(prepared(), tap)
        found.append((session.append(IDS[:70]).tobytes(), session.append(IDS[70:72]).tobytes(), session.counters))

    assert found[0] == found[1]


def test_nobody_listens_nothing_is_made() -> None:
    class Some:
        units = ("fp2half",)

        def __init__(self) -> None:
            self.seen: set[str] = set()

        def __call__(self, layer: int, unit: str, case: Cases) -> None:
            self.seen.add(unit)

    tap = Some()
    models.run("tiny", IDS[:4], prepared(), taps=tap)

    assert tap.seen == {"fp2half"}


def test_the_pe_makes_the_sums_of_the_scheme() -> None:
    """One output of a linear layer: the accumulator's last word is what FP2Half reads, and so is the array's."""
    for name in ("blk.0.q", "blk.1.o", "blk.2.down"):
        [pe, *_], [half, *_], [array, *_] = (cases(unit, name) for unit in ("bfp_pe", "fp2half", "bfp_pe_array"))
        token = pe.source["token"] % 8
        last = evaluated("bfp_pe", pe).acc[0, -1]
        assert last == half.inputs["x"][0, token]
        if pe.inputs["mode"].shape[1] == 2:
            assert evaluated("bfp_pe_array", array).acc[0].reshape(8, 16)[token, 0] == last


def test_sums_of_sub_pes_are_those_of_the_pe() -> None:
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


def test_units_of_the_cache_answer_what_the_cache_does() -> None:
    allocation = cases("bit_allocator", "blk.2")[-1]
    grouper, offsets = cases("v_grouper", "blk.2")[0], cases("k_offset", "blk.2")[0]
    session = models.session(prepared())
    session.append(IDS[:100])
    made = session._caches[2]
    shown = evaluated("k_offset", offsets)

    assert allocation.inputs["prefill"].tolist() == [[100, 0]]
    assert evaluated("bit_allocator", allocation).low_tokens.tolist() == [[4, 5]]
    assert np.array_equal(grouper.inputs["v"][0], made.words()[1][:40].reshape(40, -1)[:, :4])
    assert np.array_equal(shown.offset[0, -1], made.offset)
    assert np.array_equal(shown.k_out[0][shown.out_valid[0]], made.words()[0][:40].reshape(40, -1))


def test_the_aligner_gives_the_codes_of_the_converter() -> None:
    aligned = evaluated("bfp_aligner", cases("bfp_aligner", "blk.0.q.input")[0])

    assert not aligned.illegal.any() and int(aligned.mantissa.max()) >= 128


def test_later_calls_say_where_they_begin() -> None:
    starts = [case.source["first_token"] for _, _, case in recorded()]

    assert set(starts) == {0, 100} and starts == sorted(starts)


def test_repr() -> None:
    assert repr(Taps(prepared().units, 2, Watch())) == "Taps(layer=2)"
