"""KLLM's chip: products and tokens held to an oracle, bits to the MatMul, cycles to the formulas; broken chips."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from itertools import product as every
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.formats.kllm.kmeans_tensor import KMeansTensor
from refemu.units.kllm import index_matmul, kllm_chip
from refemu.units.kllm.index_matmul import compiled as index_matmul_compiled
from refemu.units.kllm.kllm_chip import UNIT, ChipSizes, KllmChip
from refemu.units.kllm.kllm_chip import compiled as kllm_chip_compiled
from tests.oracles.kllm import chip as oracle
from tests.oracles.kllm.formats import Vector
from tests.units.kllm.chip_operands import PAIR, assert_equal, expected, layer, scores, sizes
from tests.units.kllm.kmeans_operands import tensor

RUNS = [pytest.param(kllm_chip.matmul, id="unit"), pytest.param(kllm_chip_compiled.matmul, id="compiled")]
OPTIONS = list(every(("column", "counter"), ("tree", "serial"), ("counts", "sums")))
#: [kllm Table I], rows of the chip: area in mm2, power in W
TABLE = {
    "lanes": ("8.25", "5.73"),
    "out": ("4.61", "0.570"),
    "index": ("2.16", "0.540"),
    "codebook": ("0.00844", "0.00211"),
    "clustering": ("0.211", "0.710"),
    "orizuru": ("0.739", "0.273"),
    "functional": ("0.889", "0.563"),
}
BIAS = np.linspace(-3, 3, 8).astype(np.float16)


def options(mapping: str, merge: str, carry: str) -> ChipSizes:
    return sizes(lane_mapping=mapping, merge=merge, carry=carry)


# Products.


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("mapping", "merge", "carry"), OPTIONS)
def test_a_product_is_the_oracles(run: Any, mapping: str, merge: str, carry: str) -> None:
    """Three slabs a column, a partial tile, outliers of both operands: outputs, cycles and every counter."""
    chip = options(mapping, merge, carry)
    result = run(*PAIR, chip=chip)

    assert result.macs_sparse > 0 and result.stalls + result.merge_cycles > 0 and result.batches == 1
    assert_equal(result, expected(chip, *PAIR))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"seen": np.array([8, 3])}, id="the second row sees three columns"),
        pytest.param({"seen": np.array([0, 7])}, id="the first row sees none"),
        pytest.param({"bias": BIAS}, id="bias"),
        pytest.param({"norm": layer(2, 8, 1, False)}, id="rms"),
        pytest.param({"norm": layer(2, 8, 1, True)}, id="layer"),
        pytest.param({"norm": layer(2, 8, 1, True), "bias": BIAS}, id="layer and bias"),
    ],
)
@pytest.mark.parametrize("carry", ["counts", "sums"])
def test_norms_biases_and_rows_that_see_less(run: Any, more: dict[str, Any], carry: str) -> None:
    """[kllm §III-B, Fig. 4] D-kllm-39, D-kllm-40: a shift and a bias take an edge each."""
    b = tensor((8, 40), 2, 2) if "norm" in more else PAIR[1]
    chip = sizes(carry=carry)

    assert_equal(run(PAIR[0], b, chip=chip, **more), expected(chip, PAIR[0], b, **more))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("mapping", "merge", "carry"), OPTIONS)
@pytest.mark.parametrize("seen", [None, (20, 33), (0, 1)])
def test_integers_by_values(run: Any, mapping: str, merge: str, carry: str, seen: Any) -> None:
    """[kllm §III-D] scores by V, whose outliers meet the scores themselves; rows that see fewer positions."""
    a, v, chip = scores(2, 40, 5), tensor((40, 8), 2, 3, 1), options(mapping, merge, carry)

    assert_equal(run(a, v, chip=chip, seen=seen), expected(chip, a, v, seen))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("k", [1, 7, 8, 9, 16, 17, 31, 33])
@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_ends_of_slabs_and_turns(run: Any, k: int, mapping: str) -> None:
    """K on either side of a turn and of a slab."""
    a, b = tensor((1, k), 1, 1), tensor((5, k), 2, 2)
    for carry in ("counts", "sums"):
        chip = sizes(lane_mapping=mapping, carry=carry)
        assert_equal(run(a, b, chip=chip), expected(chip, a, b))


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 13])
def test_compiled_form_is_unit_for_any_columns(n: int) -> None:
    """Lanes without a column stay idle."""
    a, b = tensor((2, 20), 2, 1, 1), tensor((n, 20), 2, 2, 1)
    for mapping, merge, carry in OPTIONS:
        chip = options(mapping, merge, carry)
        result = kllm_chip_compiled.matmul(a, b, chip=chip)
        assert result.equals(kllm_chip.matmul(a, b, chip=chip))
        assert_equal(result, expected(chip, a, b))


@pytest.mark.parametrize("run", RUNS)
def test_bits_are_those_of_the_matmul(run: Any) -> None:
    """[kllm §III-B] D-kllm-47: with carried counts, whatever the sizes; weighted sums round elsewhere."""
    a, b, seen = tensor((3, 50), 2, 1, 2), tensor((9, 50), 2, 2, 1), np.array([9, 0, 7])
    plain = index_matmul.matmul(a, b, seen=seen)
    results = [run(a, b, seen=seen, chip=options(*each)) for each in OPTIONS]

    for (_, _, carry), result in zip(OPTIONS, results, strict=True):
        assert (result.y.tobytes() == plain.y.tobytes()) == (carry == "counts")
        assert (result.indices, result.macs_sparse) == (plain.indices, plain.macs_sparse)
    assert kllm_chip_compiled.matmul(a, b, seen=seen).y.tobytes() == plain.y.tobytes()


@pytest.mark.parametrize("run", RUNS)
def test_integers_and_norms_have_bits_of_matmul(run: Any) -> None:
    """A norm divides what the sparse path reads; leading axes of A come first."""
    a, v, b = scores(2, 40, 5), tensor((40, 8), 2, 3, 1), tensor((8, 40), 2, 2)
    norm, shaped = layer(2, 8, 1, True), tensor((1, 2, 40), 2, 1, 2)
    for left, right, more in ((a, v, {"seen": (40, 3)}), (PAIR[0], b, {"norm": norm, "bias": BIAS}), (shaped, b, {})):
        y = run(left, right, chip=sizes(), **more).y
        plain = index_matmul.matmul(left, right, **more).y
        assert y.shape == plain.shape and y.tobytes() == plain.tobytes()


def test_words_of_either_kind_overflow() -> None:
    """Infinities and NaN come out as the MatMul makes them."""
    a, b = tensor((2, 40), 2, 1, 2), tensor((8, 40), 2, 2, 1)
    a, b = (replace(each, scale=np.full_like(each.scale, 0x7BFF)) for each in (a, b))
    result = kllm_chip.matmul(a, b, chip=sizes())

    assert result.overflow.all() and result.overflows == 16
    assert_equal(result, expected(sizes(), a, b))
    assert result.equals(kllm_chip_compiled.matmul(a, b, chip=sizes()))


# Sizes of the paper.


def alike(k: int, n: int, bits: int = 4) -> tuple[KMeansTensor, KMeansTensor]:
    """A row of k values without outliers by n columns of few different ones."""
    a, b = tensor((1, k), bits, 1), tensor((64, k), 4, 2)
    index = np.tile(b.index, (-(-n // 64), 1))[:n]
    scale = np.full(n, 0x3C00, np.uint16)
    return a, KMeansTensor(b.codebook, index, scale, np.zeros((n, k), np.bool_), np.zeros(0, np.uint16))


#: edges in which slabs, histograms and tiles go through empty stages: a load, a merge, the first edge of a reduction
FILLING = 3


@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_cycles_of_a_large_matmul(mapping: str) -> None:
    """D-kllm-31: 4096 x 4096 at W4A4, eight tiles: 8 * 258 + 256 = 2,320 cycles, and three in which stages fill.

    [kllm Table I]'s 16 inputs, 32 counters and MACs, 16 lanes: counters and MACs are both at work for 2,048 cycles.
    """
    chip = ChipSizes(lane_mapping=mapping)
    result = kllm_chip_compiled.matmul(*alike(4096, 4096), chip=chip)

    assert result.cycles == 8 * 258 + 256 + FILLING == 2320 + FILLING
    assert result.tiles == 8 * 16
    assert result.count_cycles // 16 == 2048 == result.concats // (16 * 32 * 16)
    assert result.mac_cycles // 16 == 2048 + 2 * 8 and result.macs_reduce // (16 * 32) == 2048


@pytest.mark.parametrize(("k", "n"), [(4096, 512), (4096, 513), (4096, 1300), (1024, 700), (513, 512), (64, 600)])
@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_the_slower_stage_is_seen_in_every_tile(k: int, n: int, mapping: str) -> None:
    """Cycles = tiles * max(count, mac) + min(count, mac) and the filling, of whole tiles; a partial one counts less."""
    columns, whole = min(n % 512 or 512, 32), -(-n // 512)
    count = 32 * -(-k // 512) if mapping == "column" else -(-k // 16)
    last = columns * -(-k // 512) if mapping == "column" else count
    mac = 258
    result = kllm_chip_compiled.matmul(*alike(k, n), chip=ChipSizes(lane_mapping=mapping))
    first = count if whole > 1 else last

    assert count <= mac
    assert result.cycles == first + whole * mac + FILLING
    assert result.count_cycles <= 16 * ((whole - 1) * count + last)


@pytest.mark.parametrize("k", [4096, 5120, 6656, 8192, 11008, 13824, 14336])
@pytest.mark.parametrize("mapping", ["column", "counter"])
def test_layers_of_the_papers_models(k: int, mapping: str) -> None:
    """[kllm Table II] LLaMA, LLaMA-2 and Mistral: columns longer than 4,096 positions, outliers of the token.

    D-kllm-47: bits are those of the MatMul.
    """
    a, b = tensor((1, k), 4, 1, max(1, k // 200)), alike(k, 530)[1]
    result = kllm_chip_compiled.matmul(a, b, chip=ChipSizes(lane_mapping=mapping))

    assert result.y.tobytes() == index_matmul_compiled.matmul(a, b).y.tobytes()
    assert np.count_nonzero(result.y.view(np.uint16)) == result.y.size
    assert result.indices == 530 * int(np.count_nonzero(~a.mask)) and result.macs_sparse == 530 * int(a.mask.sum())


@pytest.mark.parametrize("run", RUNS)
def test_outliers_take_cycles_of_the_macs(run: Any) -> None:
    """D-kllm-31: the column with most positions left out decides for every lane."""
    a, b, chip = tensor((1, 16), 2, 1), tensor((6, 16), 2, 2), sizes()
    marked = np.zeros((6, 16), np.bool_)
    marked[5, [2, 3, 9]] = marked[0, 4] = True
    apart = KMeansTensor(
        b.codebook, np.where(marked, 0, b.index).astype(np.uint8), b.scale, marked, np.full(4, 0x4000, np.uint16)
    )
    plain, result = run(a, b, chip=chip), run(a, apart, chip=chip)

    assert result.cycles == plain.cycles + 3 and result.mac_cycles == plain.mac_cycles + 3 * chip.lanes
    assert_equal(result, expected(chip, a, apart))


# Tokens.


def at_ports(config: Mapping[str, Any], inputs: Mapping[str, np.ndarray], row: int) -> oracle.Token:
    """The oracle's answer to a row of inputs."""
    words = {name: array[row].tolist() for name, array in inputs.items()}
    k, lane_sizes = config["k"], config["sizes"]
    chip = oracle.Chip(*lane_sizes, config["lane_mapping"], config["merge"], config["carry"])
    columns = [
        oracle.right(Vector(words["b_codebook"], words["b_index"][n * k : (n + 1) * k], scale, [0] * k, []))
        for n, scale in enumerate(words["b_scale"])
    ]
    token = words["x"], words["a_codebook"], columns, words["b_codebook"], words["products"]
    return oracle.token(chip, config["tree"], config["pops"], *token, config["function"], config["softmax"])


@pytest.mark.parametrize("jit", [False, True], ids=["unit", "compiled"])
@pytest.mark.parametrize("pops", [1, 0, 3])
@pytest.mark.parametrize("kind", ["paper", "edge", "random"])
@pytest.mark.parametrize("name", list(UNIT.configs))
def test_tokens_are_the_oracles(name: str, kind: Any, pops: int, jit: bool) -> None:
    """[kllm §III-D, §IV-A, Fig. 5, Fig. 6] outputs, outliers, scale, cycles and every counter, case by case."""
    config = {**UNIT.configs[name], "pops": pops}
    for block in UNIT.cases(config, kind, 5):
        inputs = {port: array[:4] for port, array in block.inputs.items()}
        answers = [at_ports(config, inputs, row) for row in range(len(inputs["x"]))]
        result = UNIT.evaluate(config, inputs, jit=jit)

        for port in ("y", "overflow", "a_index", "a_mask"):
            assert getattr(result, port).astype(int).tolist() == [getattr(each, port) for each in answers], port
        for port in ("z", "top", "terms", "total") if config["function"] == "softmax" else ():
            assert getattr(result, port).tolist() == [getattr(each.applied, port) for each in answers], port
        assert np.ravel(result.a_scale).tolist() == [each.a_scale for each in answers]
        assert np.ravel(result.cycles_taken).tolist() == [each.counters["cycles"] for each in answers]
        for counter in UNIT.counters:
            assert getattr(result, counter) == sum(each.counters.get(counter, 0) for each in answers), counter


def first_token(name: str = "column") -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """A configuration and the inputs of its first case."""
    config = dict(UNIT.configs[name])
    block = next(iter(UNIT.cases(UNIT.configs[name], "paper", 0)))
    return config, {port: tuple(array[0].tolist()) for port, array in block.inputs.items()}


@pytest.mark.parametrize("name", list(UNIT.configs))
def test_events_of_a_token(name: str) -> None:
    """A search, sixteen inliers a cycle, edges of the lanes, cycles of the Functional Unit."""
    config, token = first_token(name)
    device = KllmChip(**config)
    states = [device.step(**token)]
    while device.busy:
        states.append(device.step())
    inliers = config["k"] - sum(states[-1].a_mask)
    groups = -(-inliers // 16)

    events = ["search"] + ["cluster"] * groups + ["edge"] * states[-1].edges
    assert [state.event for state in states] == events + ["function"] * states[-1].function_cycles
    assert [state.clustered for state in states[: groups + 1]] == [
        min(16 * turn, inliers) for turn in range(groups + 1)
    ]
    assert states[-1].cycles_taken == states[0].cycles_taken + len(states) - 1 == states[-1].cycles
    with pytest.raises(Refused, match="kllm_chip: step needs the inputs of an operation, got none"):
        device.step()


@pytest.mark.parametrize("name", list(UNIT.configs))
def test_restores_in_the_middle_of_lanes(name: str) -> None:
    """A token resumes after every event in another chip with a different history, with the same result."""
    config, token = first_token(name)
    device, other = KllmChip(**config), KllmChip(**config)
    other.step(**{**token, "x": tuple(reversed(token["x"]))})
    for _ in range(11):
        other.step()
    states = [device.step(**token)]
    while device.busy:
        states.append(device.step())
    for before, after in pairwise(states):
        other.restore(before)
        assert other.busy and other.step() == after
    other.restore(states[len(states) // 2])
    while other.busy:
        other.step()
    assert other.snapshot() == states[-1]
    following = device.step(**token), other.step(**token)
    assert following[0] == following[1]
    while device.busy:
        assert device.step() == other.step()
    with pytest.raises(RefusedType, match="kllm_chip: state must be a State of this unit, got State"):
        device.restore(device.array.lanes[0].state)  # type: ignore[arg-type]  # a State of a lane


def test_rejected_tokens_change_nothing() -> None:
    config, token = first_token()
    device = KllmChip(**config)
    before = device.snapshot()
    for port, place, word in (("x", 7, 0x7C00), ("x", 3, 0x7E01), ("a_codebook", 2, 0xFC00)):
        bad = list(token[port])
        bad[place] = word
        with pytest.raises(
            Refused, match=rf"kllm_chip: {port} must be finite, got word 0x{word:04X} at index \({place},\)"
        ):
            device.step(**{**token, port: tuple(bad)})
        assert device.snapshot() == before


# Refusals and buffers.


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("preset", ["exact", "fp32"])
def test_other_arithmetic_is_rejected(run: Any, preset: Any) -> None:
    """The lanes' MACs are fp16 and read entries in turn."""
    if preset == "fp32":
        preset = index_matmul.require_problem(*PAIR, "paper", None, None, None, None).arith
        preset = replace(preset, acc="fp32")
    with pytest.raises(
        Refused, match="kllm_chip: lanes need an fp16 accumulator in the order of the codebook, got Kllm"
    ):
        run(*PAIR, preset=preset)


@pytest.mark.parametrize("run", RUNS)
def test_zero_points_are_rejected(run: Any) -> None:
    """D-kllm-10."""
    with pytest.raises(Refused, match="kllm_chip: operands must have no zero points"):
        run(tensor((2, 40), 2, 1, zero_point=True), PAIR[1])


def with_buffer(name: str, bits: int) -> ChipSizes:
    return sizes(buffers={**ChipSizes().buffers, name: bits})


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("name", "bits"), [("weight", 64), ("index", 80), ("codebook", 256), ("out", 136)])
def test_buffers_are_exact_fits(run: Any, name: str, bits: int) -> None:
    """A slab of weights, indices of a row, a codebook, outputs and their mask bits: one bit less is rejected."""
    result = run(*PAIR, chip=with_buffer(name, bits))

    assert result.batches == (2 if name in ("index", "out") else 1)
    with pytest.raises(Refused, match=f"ChipSizes: buffer {name} must hold {bits} bits, got {bits - 1}"):
        run(*PAIR, chip=with_buffer(name, bits - 1))


def test_units_of_the_chip() -> None:
    """[kllm §IV-A, Table I] 65,536 Concat units: columns of 4,096 positions in 16 lanes; a longer one takes slabs."""
    a, b = alike(4097, 16 * 32, 1)
    result = kllm_chip_compiled.matmul(a, b)

    assert ChipSizes().lanes * ChipSizes().concat == 65536
    assert result.concats == 2 * 65536 * 32 and result.count_cycles == (8 + 1) * 16 * 32


def test_a_batch_goes_through_in_parts() -> None:
    """[kllm Table I] 32 KB: 16 tokens of 4,096 indices; 136 KB: 16 tokens of 4,096 results."""
    chip = ChipSizes()

    assert [chip.rows_at_once(*each) for each in ((4096, 4096, 4, 256), (4097, 64, 4, 256), (64, 4097, 4, 256))] == [
        16,
        15,
        15,
    ]
    a, b = tensor((33, 40), 2, 1), tensor((3, 40), 2, 2)
    result = kllm_chip_compiled.matmul(a, b, chip=with_buffer("index", 80 * 4))
    assert result.batches == 9
    assert result.cycles == kllm_chip_compiled.matmul(a, b, chip=sizes()).cycles


def test_table_1_areas_add_up_and_power_not() -> None:
    """[kllm Table I] Lane blocks make 8.25 mm2, all rows 16.87. Known inconsistency: the rows of power add up to 8.388
    W, not to the 8.96 stated; with the Out Buffer counted twice they do."""
    lane = [Fraction(x) for x in ("0.0868", "0.0675", "0.271", "0.0905")]
    areas, powers = ([Fraction(row[i]) for row in TABLE.values()] for i in (0, 1))

    assert round(float(16 * sum(lane)), 2) == 8.25
    assert round(float(sum(areas)), 2) == 16.87
    assert round(float(sum(powers)), 3) == 8.388
    assert round(float(sum(powers) + Fraction(TABLE["out"][1])), 2) == 8.96


def test_nothing_of_a_token_overlaps() -> None:
    """[kllm §V-D] "pipelined when batch size >= 1": the search of a token is over before its indices are counted."""
    config, token = first_token()
    result = UNIT.evaluate(UNIT.configs["column"], {port: np.array([words]) for port, words in token.items()})

    assert result.cycles == result.search_cycles + result.cluster_cycles + result.edges
    assert (result.search_cycles, result.cluster_cycles) == (9 + 5 + 5, 2) and config["tree"] == 16


def test_kllm_chip_repr_evaluates_back() -> None:
    config = UNIT.configs["column"]

    assert eval(repr(ChipSizes(lanes=2))) == ChipSizes(lanes=2) != ChipSizes()
    assert eval(repr(KllmChip(**config))).snapshot() == KllmChip(**config).snapshot()


def test_a_chip_whose_lanes_answer_zeros_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here passes with a lane that is not there."""
    from refemu.units.kllm.pe_lane import PeLane

    real = PeLane._outputs
    monkeypatch.setattr(
        PeLane, "_outputs", lambda self, before, y, following: real(self, before, [0] * len(y), following)
    )
    y = kllm_chip.matmul(*PAIR, chip=sizes()).y

    assert not y.any() and y.view(np.uint16).tolist() != expected(sizes(), *PAIR).y


@pytest.mark.parametrize("function", ["none", "exp"])
def test_rounding_of_softmax_needs_softmax(function: str) -> None:
    config = {**UNIT.configs["column"], "function": function, "softmax": "softmax32"}
    with pytest.raises(Refused, match=f"kllm_chip: softmax='softmax32' needs function='softmax', got .*{function}"):
        KllmChip(**config)
