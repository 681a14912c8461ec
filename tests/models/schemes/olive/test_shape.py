"""Costs of models by their sizes on OliVe's array: a block of OPT-6.7B restated by hand, and what options move."""

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.models import machine
from refemu.models.machine.fill import stepped
from refemu.models.schemes.olive import array_works, designs
from refemu.models.schemes.olive.array_options import OliveMachine
from refemu.models.schemes.olive.array_works import Layer, Side
from tests.oracles.olive import system as oracle

OPT: dict[str, Any] = {"shape": "opt-6.7b", "scheme": "olive-4"}
SIZE, PORT = st.integers(1, 9), st.sampled_from([1, 2, 3, 8, 100])
FOUR, EIGHT = Side(Fraction(4), 4), Side(Fraction(8), 8)


def block(tokens: int, options: str = "", **more: Any) -> list[Any]:
    """Operations of a block that have cycles."""
    report = machine.of_shape(**OPT | more, tokens=tokens, options=options)
    return [work for work in report.sections[0].works if work.cycles is not None]


def ours(works: list[Any]) -> list[oracle.Operation]:
    return [
        oracle.Operation(each.name, each.cycles, each.cycles if each.fed is None else each.fed, each.busy, each.bytes)
        for each in works
    ]


@pytest.mark.long
@pytest.mark.parametrize("tokens", [1, 64, 256, 2048])
def test_block_of_opt_equals_the_oracle(tokens: int) -> None:
    """Bytes by stream, busy cycles, edges alone and with overlapped tiles, of all 16 operations."""
    assert ours(block(tokens)) == oracle.block(tokens)


@pytest.mark.parametrize(
    ("phase", "tokens", "batch", "rows"),
    [
        *[("prompt", 128, 1, 128), ("prompt", 128, 16, 2048), ("decode", 2048, 1, 1), ("decode", 2048, 16, 16)],
        *[("decode", 16384, 1, 1), ("decode", 16384, 16, 16), ("prompt", 2048, 1, 2048)],
        pytest.param("prompt", 2048, 16, 32768, marks=pytest.mark.slow),
        pytest.param("prompt", 16384, 1, 16384, marks=pytest.mark.slow),
    ],
)
def test_batches_of_opt_equal_the_oracle(phase: Any, tokens: int, batch: int, rows: int) -> None:
    """A new token of any request is a row of the array; a decode step has one of each."""
    report = machine.of_shape(**OPT, tokens=tokens, phase=phase, batch=batch)
    works = [work for work in report.sections[0].works if work.cycles is not None]
    theirs, total = oracle.block(rows), report.total
    assert total is not None

    assert ours(works) == theirs
    assert total["cycles"] == 32 * oracle.cycles(theirs, True)
    assert total["tokens_per_second"] == rows / total["seconds"]
    moved = {name: 32 * sum(one.bytes.get(name, 0) for one in theirs) for each in theirs for name in each.bytes}
    busy = {name: 32 * sum(one.busy.get(name, 0) for one in theirs) for each in theirs for name in each.busy}
    assert total["bytes"] == moved
    assert total["busy"] == busy | {"memory": -(-sum(moved.values()) // 128)}


@pytest.mark.parametrize("overlap", ["none", "tiles"])
def test_total_of_opt_adds_32_blocks(overlap: str) -> None:
    """D-olive-57: 500 MHz, 128 bytes a cycle; no event has a price."""
    options = "overlap=none" if overlap == "none" else ""
    total, theirs = machine.of_shape(**OPT, tokens=256, options=options).total, oracle.block(256)
    if overlap == "none":
        skew = 2 * 64 - 2
        tiles = {name: -(-256 // 64) * (n // 64) for name, n, *_ in oracle.LAYERS}
        theirs = [
            each._replace(busy={**each.busy, "array": each.busy["array"] + (tiles[each.name] - 1) * skew})
            if "array" in each.busy
            else each
            for each in theirs
        ]
    assert total is not None

    assert total["cycles"] == 32 * oracle.cycles(theirs, overlap == "tiles")
    assert total["seconds"] == total["cycles"] / 500e6
    assert total["tokens_per_second"] == 256 / total["seconds"]
    for stream in ("weights", "activations", "metadata", "outputs"):
        assert total["bytes"][stream] == 32 * sum(each.bytes.get(stream, 0) for each in theirs)
    for engine in ("encoder", "array", "drain", "output"):
        assert total["busy"][engine] == 32 * sum(each.busy.get(engine, 0) for each in theirs)
    assert total["busy"]["memory"] == -(-sum(total["bytes"].values()) // 128)
    macs = 32 * 256 * (4 * 4096 * 4096 + 2 * 4096 * 16384)
    assert total["peak_share"] == macs / (4096 * total["cycles"])
    assert total["bound"] == "array" and set(total["energy_pj"].values()) == {None}


@settings(deadline=None)
@given(m=SIZE, n=SIZE, k=SIZE.map(lambda pairs: 2 * pairs), rows=st.integers(1, 4), columns=st.integers(1, 4))
def test_overlapped_tiles_equal_a_stepped_grid(m: int, n: int, k: int, rows: int, columns: int) -> None:
    """D-olive-58: no sum meets another, and the first slices arrive in one edge of a wide port."""
    rng = np.random.default_rng(m)
    a, b = rng.integers(-7, 8, (m, k)), rng.integers(-7, 8, (n, k))
    d, edges = oracle.overlapped(a.tolist(), b.tolist(), rows, columns)
    layer = Layer("", m, n, k, (rows, columns), FOUR, FOUR)

    assert d == (a @ b.T).tolist()
    assert array_works.fed(layer, False, OliveMachine(port=1 << 20)) == 1 + edges
    assert array_works.fed(layer, True, OliveMachine(port=1 << 20)) == 1 + edges


@pytest.mark.parametrize("reuse", ["activations", "weights", "least"])
@settings(deadline=None)
@given(m=st.integers(1, 30), n=st.integers(1, 30), k=st.integers(1, 350).map(lambda pairs: 2 * pairs), port=PORT)
def test_whole_products_equal_the_stepped_buffer(reuse: Any, m: int, n: int, k: int, port: int) -> None:
    """Slices edge by edge: the port fills one half of a buffer while the array reads the other."""
    options = OliveMachine(port=port, reuse=reuse, weight_kb=1, act_kb=2)
    layer = Layer("", m, n, k, (8, 8), FOUR, EIGHT)
    runs = [run for part, times in array_works._sequence(layer, False, options) for _ in range(times) for run in part]
    runs[-1] = dataclasses.replace(runs[-1], cycles=runs[-1].cycles - max(0, 8 - k) + 14 + 8)

    assert array_works.fed(layer, False, options) == stepped(runs, Fraction(port)).cycles
    reads = array_works.readings(layer, options)
    assert sum(run.size for run in runs) == (reads.a * m * 4 + reads.b * n * 8) * k // 8


def test_reuse_takes_the_fewer_bytes() -> None:
    """D-olive-60: 64 KB of activations stay while weights pass, or the reverse."""
    layer = Layer("", 2048, 4096, 1024, (64, 64), FOUR, FOUR)
    a, b = 2048 * 512, 4096 * 512
    reads = {reuse: array_works.readings(layer, OliveMachine(reuse=reuse)) for reuse in ("activations", "weights")}

    assert {reuse: (each.a, each.b) for reuse, each in reads.items()} == {"activations": (1, 8), "weights": (32, 1)}
    assert array_works.readings(layer, OliveMachine()) == min(reads.values(), key=lambda each: each.a * a + each.b * b)
    both = [machine.of_shape("bert-large", "olive-4", 2048, options=each).total for each in ("", "reuse=weights")]
    assert sum(both[0]["bytes"].values()) < sum(both[1]["bytes"].values())


def test_inputs_that_fit_stay_on_the_chip() -> None:
    """D-olive-60: 64 tokens of 4,096 4-bit codes are 128 KB, half of the buffer; 65 are written and read."""
    fits, spills = ({work.name: work for work in block(tokens)} for tokens in (64, 65))

    assert "activations" not in fits["q"].bytes and "outputs" not in fits["encode.q"].bytes
    assert spills["encode.q"].bytes["outputs"] == 65 * 2048 and spills["q"].bytes["activations"] % (65 * 2048) == 0


def test_a_narrow_output_stage_slows_the_drain() -> None:
    """D-olive-59: 16 pairs an edge take a row of 64 sums in two edges, which shows where K is below 128."""
    layer = Layer("", 64, 64, 64, (64, 64), FOUR, FOUR)
    wide, narrow = (array_works.fed(layer, True, OliveMachine(pairs=pairs)) for pairs in (32, 16))

    assert narrow - wide == 64
    long, short = (machine.of_shape(**OPT, tokens=64, options=each).total for each in ("pairs=16", ""))
    assert long["busy"]["output"] == 2 * short["busy"]["output"]
    assert long["busy"]["encoder"] == 2 * short["busy"]["encoder"]


def test_eight_bits_take_a_quarter_of_the_grid() -> None:
    """D-olive-37: a tile has 32 x 32 outputs, and a code twice the bytes."""
    four, eight = ({work.name: work for work in block(64, scheme=name)} for name in ("olive-4", "olive-8"))

    assert eight["q"].busy["array"] - 62 == 4 * (four["q"].busy["array"] - 126)
    assert eight["encode.q"].bytes["activations"] == four["encode.q"].bytes["activations"]
    assert eight["q"].bytes["weights"] == 2 * 2 * four["q"].bytes["weights"]  # two tile rows instead of one


def test_layers_of_both_widths_are_encoded_twice() -> None:
    """D-olive-41: blocks that differ are lines of their own."""
    report = machine.of_shape("bert-base", "olive-4:eight_bit=blk.3.down+q", 384)

    assert [(section.layer, section.count) for section in report.sections] == [(0, 3), (3, 1), (4, 8)]
    works = [[work.name for work in section.works if work.name.startswith("encode")] for section in report.sections]
    assert works[0] == ["encode.q", "encode.k", "encode.o", "encode.up", "encode.down"] == works[1]
    modes = [dict(row.cost.macs) for row in report.layers if row.kind == "linear"]
    assert modes[0]["int8 x int8"] == 384 * 768 * 768 and modes[1]["int8 x int8"] == 384 * 768 * (768 + 3072)


def test_layers_outside_have_no_cycles() -> None:
    """D-olive-32."""
    report = machine.of_shape("gpt2-xl", "olive-4:skip=down+lm_head", 32).as_json()

    assert {"attention", "norm", "head", "down"} <= {entry["name"] for entry in report["not_on_the_machine"]}
    rows = {(row["layer"], row["kind"]): row for row in report["layers"]}
    assert rows[0, "attention"]["cycles"] is None and rows[-1, "linear"]["cycles"] is None
    assert machine.of_shape("gpt2-xl", "olive-4:skip=none", 32).total["cycles"] > report["total"]["cycles"]


def test_mixture_has_products_of_every_used_expert() -> None:
    report = machine.of_shape("mixtral-8x7b", "olive-4", 16, "decode", 2, "overlap=operations")
    names = [work.name for work in report.sections[0].works]

    assert [name for name in names if name.startswith("down.") and "output" not in name] == [
        f"down.{expert}" for expert in range(4)
    ]


#: speed of OliVe over each design on the array, OPT-6.7B, 2,048 tokens [olive §5.4], by hand: 4-bit elements by theirs
RATIOS = {"int8": 4.0, "ant": 0.1875 * 1 + 0.8125 * 4, "olaccel": 4096 / 1152, "adafloat": 4096 / 896, "gobo": 4.0}


@pytest.mark.parametrize("design", RATIOS)
def test_speed_over_other_designs_follows_from_their_elements(design: str) -> None:
    """D-olive-61: within 1.5 %, since the array of each is busy nearly always."""
    olive, other = (machine.of_shape(**OPT, tokens=2048, options=each).total for each in ("", f"design={design}"))

    assert other["cycles"] / olive["cycles"] == pytest.approx(RATIOS[design], rel=0.015)


def test_bytes_of_other_designs() -> None:
    """A decode step reads each weight once: 4 bits, 8, 3.2 layers of 4 at 8, or 4 and an outlier with its place."""
    weights = 32 * (4 * 4096 * 4096 + 2 * 4096 * 16384)
    per_weight = {
        "olive": 4,
        "int8": 8,
        "adafloat": 8,
        "ant": (26 * 8 + 6 * 4) / 32,
        "olaccel": 4.32,
        "gobo": 4.48,
    }
    for design, bits in per_weight.items():
        options = "" if design == "olive" else f"design={design}"
        total = machine.of_shape(**OPT, tokens=1024, phase="decode", options=options).total
        assert total["bytes"]["weights"] == pytest.approx(weights * bits / 8, rel=1e-6), design
    assert designs.eight_bit_blocks("ant", 32) == 26 and designs.eight_bit_blocks("olive", 32) == 0


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("rows=32", "cycles"),
        ("cols=128", "cycles"),
        ("pairs=8", "busy"),
        ("encoder_stages=9", "cycles"),
        ("output_stages=9", "cycles"),
        ("weight_kb=1024", "bytes"),
        ("act_kb=1024", "bytes"),
        ("clock=1000", "seconds"),
        ("port=16", "cycles"),
        ("overlap=none", "cycles"),
        ("overlap=operations", "cycles"),
        ("reuse=weights", "bytes"),
        ("design=gobo", "bytes"),
    ],
)
def test_every_option_moves_a_number(option: str, field: str) -> None:
    tokens = 64 if option.startswith("encoder") else 512  # longer inputs are bound by the memory
    before, after = (machine.of_shape(**OPT, tokens=tokens, options=each).total for each in ("", option))

    assert before[field] != after[field]


@pytest.mark.parametrize(
    ("scheme", "options", "message"),
    [
        ("olive-4", "rows=7", "rows must be even"),
        ("olive-4", "pairs=0", "pairs must be"),
        ("olive-4", "design=tpu", "design must be"),
        ("olive-4", "rows=1024,act_kb=1", "half of act_kb must hold a value of 16 bits for each of the rows"),
        ("olive-4:n_eight_bit=2", "", "a shape has none; name the layers in eight_bit"),
    ],
)
def test_invalid_options_are_rejected(scheme: str, options: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        machine.of_shape("bert-base", scheme, 16, options=options)


def test_option_without_effect_is_rejected() -> None:
    """One token fits the buffer of activations, so every weight is read once in any order."""
    with pytest.raises(Refused, match="option reuse changes no number here, got activations; leave it out"):
        machine.of_shape("bert-base", "olive-4", 1, options="reuse=activations")


def test_other_designs_need_a_shape() -> None:
    """Their values are not those of the scheme."""
    with pytest.raises(Refused, match="design ant computes other values than the scheme"):
        machine.run("tiny", "olive-4", 0, 4, options="design=ant")


@pytest.mark.parametrize("scheme", ["olive-4", "olive-8", "olive-4:eight_bit=k"])
def test_machine_cost_and_shape_agree(scheme: str) -> None:
    """Records of the machine are those of the cost of a run; a shape of the same sizes has the same numbers."""
    report, run = machine.run("tiny", scheme, 1, 16), machine.cost("tiny", scheme, 16)
    works = {work.name: work for section in run.sections if section.layer <= 1 for work in section.works}

    assert report.differing == 0
    for work in report.section.works:
        assert works[work.name] == work
    assert report.total["cycles"] == max(each.end for each in run.lines[0])


FAULTS = {
    "a stream left out": lambda work: dataclasses.replace(
        work, bits={name: bits for name, bits in work.bits.items() if name != "metadata"}
    ),
    "weights read once": lambda work: dataclasses.replace(
        work, bits={name: min(bits, 4 * 4096 * 16384) for name, bits in work.bits.items()}
    ),
    "a cycle more": lambda work: dataclasses.replace(work, cycles=work.cycles + 1) if work.name == "q" else work,
    "no skew at the end": lambda work: dataclasses.replace(work, fed=work.fed and work.fed - 126),
    "8-bit activations": lambda work: dataclasses.replace(
        work, bits={name: bits * (2 if name == "activations" else 1) for name, bits in work.bits.items()}
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_in_records_differ_from_the_oracle(fault: str) -> None:
    works, theirs = block(256), oracle.block(256)

    assert ours(works) == theirs
    assert ours([FAULTS[fault](work) for work in works]) != theirs


def test_model_without_array_work_has_no_total() -> None:
    """D-olive-41: weights alone are quantized, so nothing has cycles, and none is 0."""
    report = machine.of_shape("bert-base", "olive-4:act_bits=none", 16)

    assert report.total["cycles"] is None and report.total["seconds"] is None and report.total["bound"] is None
    assert {"q", "down", "attention"} <= {entry.name for entry in report.not_on_the_machine}
