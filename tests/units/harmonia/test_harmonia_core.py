"""The core against an oracle of its own: every register after every event, codes and counters of every kind."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.units.harmonia import harmonia_core
from refemu.units.harmonia.harmonia_core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.plan import plan
from tests.oracles.harmonia import core_values, units
from tests.units.harmonia.core_products import KEYS, PRODUCTS, Product, at, offsets, widths

IMPLEMENTATIONS = [
    pytest.param(harmonia_core.run, id="unit"),
    pytest.param(harmonia_core.UNIT.run_compiled, id="compiled"),
]
CASES = [pytest.param(product, id=name) for name, product in PRODUCTS.items()]


@pytest.mark.long
@pytest.mark.parametrize("product", CASES)
def test_every_register_after_every_event(product: Product) -> None:
    """[harmonia §IV-A, Fig. 12] D-harmonia-25, D-harmonia-26: order of the steps, words on their way, counters."""
    states = list(HarmoniaCore(**product.config).steps(**product.ports))
    wanted = product.moments

    assert [state.event for state in states] == [moment.event for moment in wanted]
    assert [state.phase for state in states] == list(range(len(wanted)))
    for state, moment in zip(states, wanted, strict=True):
        for name in ("sums", "y", "sign", "mantissa", "exponent", "offset"):
            value = getattr(state, name)
            assert (value if isinstance(value, tuple) else (value,)) == getattr(moment, name), (name, state.phase)
        assert {name: getattr(state, name) for name in HarmoniaCore.counters} == moment.counters
        if product.wanted.shifted:
            assert (state.offsets.peak, state.offsets.frozen) == (moment.peak, int(moment.frozen))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("product", CASES)
def test_results_are_the_oracles(run: Any, product: Product) -> None:
    """[harmonia §IV-A] Codes, words, offsets, counters. D-harmonia-25, D-harmonia-26, D-harmonia-48, D-arith-8."""
    result, wanted = product.run(run), product.moments[-1]

    for name in ("sign", "mantissa", "exponent", "y", "offset"):
        value = getattr(result, name)
        shown = [] if value is None else np.atleast_1d(value).astype(int).tolist()
        assert shown == list(getattr(wanted, name)), name
    assert {name: getattr(result, name) for name in HarmoniaCore.counters} == wanted.counters


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_a_prompt_and_later_keys_lose_the_same(run: Any) -> None:
    """[harmonia §III-C] D-harmonia-26: every key after the window, in the prompt or later, has its offsets."""
    whole = Product("k", 40, 32, 64, **KEYS)
    begun = whole.run(run)
    frozen = core_values.Given(frozen=begun.offset.tolist())
    later = Product("k", 3, 32, 64, seed=9, start=40, given=frozen, **KEYS)
    words, offset = core_values.words(later.wanted, later.a, later.b, frozen)

    assert begun.offset.any() and offset == begun.offset.tolist()
    result = later.run(run)
    assert later.y(result).tolist() == words and result.offset.tolist() == offset
    assert (begun.tracked, result.tracked) == (32 * 64 + 2 * 63, 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_queries_and_later_keys_differ_by_offsets_only(run: Any) -> None:
    """[harmonia §IV-A (5)] At position 100 nothing is tracked: zeros in, zeros off, whatever the peaks are."""
    later = Product("k", 1, 64, 64, start=100, given=core_values.Given(frozen=[0] * 64))
    k, q = later.run(run), replace_kind(later, "q").run(run)

    assert k.y.tolist() == q.y.tolist() and k.tracked == 0 and not k.offset.any()


def replace_kind(product: Product, kind: str) -> Product:
    config = {name: value for name, value in product.config.items() if name != "kind"}
    return Product(kind, **config)


def events(product: Product) -> list[Any]:
    return [state.event for state in HarmoniaCore(**product.config).steps(**product.ports)]


def test_steps_of_one_block_come_in_papers_order() -> None:
    """[harmonia §IV-A, Fig. 12] (1) load, (2) dispatch, (3) compute, (4) FP2Half and vector unit, (6) convert, (7)."""
    common = ["load", "load", "dispatch", "compute", "fp2half"]

    assert events(Product("linear", 8, 32, 32)) == [*common, "convert", "store"]
    assert events(Product("final", 8, 32, 32)) == [*common, "store"]
    assert events(Product("k", 8, 32, 32)) == [*common, "vector", "offset", "convert", "store"]


def test_keys_of_the_window_wait_for_its_end() -> None:
    """[harmonia §IV-A (5)] The first 32 tokens are converted once all are tracked, later ones at once."""
    steps = events(Product("k", 41, 32, 32))
    waiting = [step for step in steps if step in ("offset", "convert")]

    assert waiting == ["offset"] * 4 + ["convert"] * 4 + ["offset", "convert"] * 2


def test_heads_and_score_rows_wait_until_complete() -> None:
    """[harmonia §IV-A (4)] The temporary SRAM holds a head for the rotation, a row for the softmax."""
    turned = events(Product("q", 8, 32, 64, head_dim=64))
    assert turned == ["load", "load", *["dispatch", "compute", "fp2half"] * 2, "vector", *["convert", "store"] * 2]
    scores = events(Product("score", 8, 32, 70, "bfp8", start=62))
    assert scores.index("vector") > max(i for i, step in enumerate(scores) if step == "compute")


@pytest.mark.parametrize("force", [1, 2])
def test_both_dataflows_give_the_same_bits(force: int) -> None:
    """[harmonia §IV-D] Other order, other accesses, same C."""
    product = Product("linear", 40, 32, 70)
    one, two = (product.run(harmonia_core.UNIT.run_compiled, tile_m=32, tile_k=32, force=flow) for flow in (force, 0))

    for name in ("y", "sign", "mantissa", "exponent"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert one.fetched == units.ema(40, 32, 70, 32, 32, force)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_counters_are_those_of_the_parts(run: Any) -> None:
    product = Product("linear", 9, 40, 33)
    result = product.run(run)
    passes = 2 * 3

    assert (result.passes, result.cycles, result.reads) == (passes, passes * (2 + 15), passes * 2)
    assert (result.macs, result.fp32_adds) == (64 * 9 * 33, 2 * 9 * 33)
    assert (result.fetched, result.stored, result.half_columns) == (9 * 40 + 33 * 40, 9 * 33, 2 * 33)
    assert (result.compare_cycles, result.align_cycles, result.comparisons) == (66, 66, 9 * 33)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_windows_end_by_position(run: Any) -> None:
    """D-harmonia-45: rows 2 and 3 are after a window of four tokens, like row 4 of a whole prompt."""
    apart = Product("k", 5, 32, 32, window=4, given=at(0, 1, 4, 5, 6), positions="port").run(run)
    prompt = Product("k", 5, 32, 32, window=4).run(run)

    assert (apart.tracked, prompt.tracked) == (2 * 32 + 31, 4 * 32 + 31)
    assert apart.offset.tolist() == Product("k", 2, 32, 32, seed=1).run(run).offset.tolist()


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_positions_at_port_are_those_from_start(run: Any) -> None:
    """D-harmonia-45."""
    for kind, start in (("q", 70), ("score", 20), ("k", 0)):
        given = at(*range(start, start + 5))
        b_type = "bfp8" if kind == "score" else "int4"
        one, two = (
            Product(kind, 5, 32, 32, b_type, start=start).run(run),
            Product(kind, 5, 32, 32, b_type, given=given, positions="port").run(run),
        )
        assert one.equals(two)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_rows_with_different_codes_cost_cycles_or_words(run: Any) -> None:
    """D-harmonia-46: 8 rows, 4 groups of one column tile; row r sees r // 2 groups in 8 bits: four sets of codes."""
    wide = core_values.Given(wide=[[int(group < row // 2) for group in range(4)] for row in range(8)])
    product = Product("final", 8, 128, 16, "mixed", given=wide)
    sets, rows = product.run(run), product.run(run, codes="rows")

    assert sets.y.tolist() == rows.y.tolist()
    assert (sets.passes, rows.passes) == (4, 1)
    assert (int(sets.array_cycles), int(rows.array_cycles)) == (4 * (4 + 15) + 0 + 1 + 2 + 3, 4 + 3 + 15)
    assert (int(sets.array_words), int(rows.array_words)) == (16 * (4 * 4 + 6), 16 * (8 * 4 + 12))
    assert (sets.reads, rows.reads) == (16, 4)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_one_width_of_all_codes_is_that_type(run: Any) -> None:
    """D-harmonia-36: 8-bit codes, or their upper nibbles, in one pass; half the cycles at 4 bits."""
    whole = Product("final", 5, 64, 20, "bfp8")
    for bit, b_type in ((1, "bfp8"), (0, "bfp4")):
        given = core_values.Given(wide=[[bit] * 2] * 5)
        found, due = Product("final", 5, 64, 20, "mixed", given=given).run(run), Product("final", 5, 64, 20, b_type)
        assert found.y.tolist() == due.run(run).y.tolist() and found.cycles == due.run(run).cycles
    assert whole.run(run).cycles == 2 * (2 * 2 + 15)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_heads_ending_inside_group_are_zero_filled(run: Any) -> None:
    """D-harmonia-47: scores of heads of 16 channels are those of the same heads with 16 channels of 0."""
    short = Product("score", 3, 16, 35, "bfp8", start=30)
    ports = dict(short.ports)
    for name, rows in (("a_sign", 3), ("a_mag", 3), ("b", 35), ("b_sign", 35)):
        ports[name] = np.pad(ports[name].reshape(rows, 16), ((0, 0), (0, 16)), constant_values=name == "b").reshape(-1)
    sums = [
        run(**each, **config)
        for each, config in (
            (short.ports, short.config | {"kind": "final", "start": 0}),
            (ports, short.config | {"kind": "final", "start": 0, "inner": 32}),
        )
    ]

    assert sums[0].y.tolist() == sums[1].y.tolist()


def test_result_beyond_fp16_raises_without_change() -> None:
    product = Product("linear", 1, 32, 32, "int4")
    ports = product.ports | {"a_exp": np.array([30]), "w_scale": np.full(32, 0x7BFF)}
    core = HarmoniaCore(**product.config)
    inputs = [ports[port.name].tolist() for port in core.ports.inputs]
    core.step(*inputs)
    while core.state.event != "fp2half":
        core.step()
    before = core.snapshot()
    with pytest.raises(Refused, match=r"bfp_converter: x must hold no infinity and NaN; .*, got 0x7c00 at index"):
        core.step()

    assert core.snapshot() == before
    with pytest.raises(Refused, match=r"step takes no inputs after event \w+"):
        core.step(*inputs)


def test_feed_forward_plan_has_no_step_per_read() -> None:
    """[harmonia §IV-D, §V-A] The widest layers of the paper's models; every element is stored once."""
    for rows, inner, columns in ((1, 4096, 11008), (1, 16384, 4096), (64, 4096, 14336)):
        shape = HarmoniaCore().shape._replace(rows=rows, inner=inner, columns=columns)
        stored, loaded = (
            sum(action.number for action in plan(shape) if action.event == event) for event in ("store", "load")
        )
        assert (stored, loaded) == (
            rows * columns,
            min(units.ema(rows, inner, columns, dataflow=flow) for flow in (1, 2)),
        )


BAD = [
    pytest.param({"kind": "p"}, "kind must be one of 'q', 'k'", id="kind"),
    pytest.param({"m": 12}, r"m must be in \[1, 11\], got 12", id="m"),
    pytest.param({"b_type": "int8"}, "b_type must be one of", id="b_type"),
    pytest.param({"activation": "gelu"}, "activation must be one of", id="activation"),
    pytest.param(
        {"kind": "v", "activation": "silu"}, "an activation needs kind 'linear' or 'final', got 'v'", id="which"
    ),
    pytest.param({"kind": "q", "head_dim": 12}, "whole heads of 12, got 32", id="head"),
    pytest.param({"kind": "k", "head_dim": 1}, "head_dim must be even for rotation 'half', got 1", id="odd"),
    pytest.param({"rotation": "both"}, "rotation must be one of 'half', 'interleaved', 'none', got 'both'", id="pairs"),
    pytest.param({"window": 33}, r"window must be in \[0, 32\], got 33", id="window"),
    pytest.param({"start": -1}, r"start must be in \[0, 4194302\], got -1", id="start"),
    pytest.param({"kind": "k", "start": 8}, "start must be 0 or after the window of 32 tokens, .* got 8", id="inside"),
    pytest.param(
        {"kind": "k", "start": 32}, "frozen must be the offsets .* kind 'k' from position 32 on, got None", id="frozen"
    ),
    pytest.param(
        {"kind": "k", "frozen": np.zeros(32, int)},
        "frozen must be None for kind 'k' from position 0 on, got values",
        id="unasked",
    ),
    pytest.param(
        {"kind": "k", "start": 32, "frozen": np.full(32, 0x7C00)}, "frozen must be finite, got 0x7c00 at", id="infinite"
    ),
    pytest.param(
        {"kind": "k", "start": 32, "frozen": np.full(32, 0x3C00)},
        "frozen must have at most 1 channels that are not 0, got 32",
        id="many",
    ),
    pytest.param(
        {"kind": "context", "columns": 16}, "columns of kind 'context' must be a multiple of 32, got 16", id="padding"
    ),
    pytest.param({"positions": "port"}, "position must be the position of every row .*, got None", id="no position"),
    pytest.param(
        {"position": np.arange(2)}, "position must be None for kind 'linear' with positions 'start'", id="placed"
    ),
    pytest.param(
        {"positions": "port", "position": np.array([3, 3])}, r"must ascend .* got 3 at index \(1,\)", id="twice"
    ),
    pytest.param(
        {"positions": "port", "position": np.array([3, 2])}, r"must ascend .* got 2 at index \(1,\)", id="back"
    ),
    pytest.param(
        {"positions": "port", "position": np.array([3, 4]), "start": 4},
        "must be at least start, which is 4, got 3",
        id="early",
    ),
    pytest.param(
        {"positions": "port", "position": np.array([3, 4]), "kind": "k"},
        "of the first key must be 0, .* got 3",
        id="late",
    ),
    pytest.param(
        {"positions": "port", "position": np.array([3, 32]), "kind": "score"},
        "below 32, the number of keys, got 32",
        id="no key",
    ),
    pytest.param({"b_type": "mixed"}, "wide must be a mask of the codes with 8 bits .*, got None", id="no widths"),
    pytest.param({"codes": "both"}, "codes must be one of 'sets', 'rows', got 'both'", id="codes"),
    pytest.param({"positions": "all"}, "positions must be one of 'start', 'port', got 'all'", id="positions"),
    pytest.param({"bias_add": "after"}, "bias must be a bias of every column .*, got None", id="no bias"),
    pytest.param(
        {"bias_add": "after", "bias": np.full(32, 0x7C00)},
        r"bias must be finite, got 31744 at index \(0,\)",
        id="bias",
    ),
    pytest.param({"kind": "context", "bias_add": "after"}, "a bias needs a linear layer, got kind", id="biased"),
    pytest.param({"kind": "score", "start": 32}, "columns must be at least 34 keys, .* got 32", id="keys"),
    pytest.param({"b": np.full(1024, 16)}, r"b must have 4 bits in mode M8W4, got 16 at index \(0, 0, 0\)", id="b"),
    pytest.param({"b_exp": np.ones(32, int)}, r"b_exp must be 0 in mode .*, got 1 at index \(0, 0\)", id="b_exp"),
    pytest.param({"b_type": "bfp8"}, r"w_scale must be 0 in mode M8M8, got .*", id="w_scale"),
    pytest.param({"tile_m": 40}, "m must be a multiple of 32, got 40", id="tile"),
    pytest.param({"partial": "x"}, "partial must be one of", id="partial"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("change", "message"), BAD)
def test_harmonia_core_rejects_invalid_inputs(run: Any, change: dict[str, Any], message: str) -> None:
    product = Product("linear", 2, 32, 32)
    with pytest.raises(Refused, match=message):
        run(**{**product.ports, **product.config, **change})


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("change", [{"wide": np.ones(3, int)}, {"wide": np.ones(0, int)}])
def test_harmonia_core_rejects_lists_of_another_length(run: Any, change: dict[str, Any]) -> None:
    """A bit for every row and group."""
    product = Product("final", 2, 64, 20, "mixed", given=widths(2, 2))
    with pytest.raises((Refused, RefusedType), match="wide"):
        run(**{**product.ports, **product.config, **change})


@pytest.mark.parametrize(
    ("product", "change", "message"),
    [
        (Product("score", 2, 32, 20, "bfp8", given=at(3, 4), positions="port"), {"position": (4, 3)}, "got 3 at index"),
        (Product("score", 2, 32, 20, "bfp8", given=at(3, 4), positions="port"), {"position": (4, 3)}, "got 3 at index"),
        (Product("k", 1, 32, 32, start=32, given=offsets(32)), {"frozen": None}, "frozen must be the offsets"),
        (Product("k", 1, 32, 32, start=32, given=offsets(32)), {"frozen": (0x7C00,) * 32}, "frozen must be finite"),
        (Product("final", 2, 64, 20, "mixed", given=widths(2, 2)), {"wide": (1, 1, 1)}, "wide"),
        (Product("final", 2, 64, 20, "mixed", given=widths(2, 2)), {"wide": None}, "wide must be a mask of the codes"),
        (Product("linear", 2, 32, 32), {"b": (16,) * 1024}, "b must have 4 bits in mode .*, got 16 at index"),
    ],
)
def test_rejected_step_changes_nothing(product: Product, change: dict[str, Any], message: str) -> None:
    """After a whole product, whose registers stay."""
    core = HarmoniaCore(**product.config)
    (*_, last) = core.steps(**product.ports)
    inputs = {name: array.tolist() for name, array in product.ports.items()}
    with pytest.raises((Refused, RefusedType), match=message):
        core.step(**{**inputs, **change})

    assert core.state is last


def test_harmonia_core_repr_evaluates_back() -> None:
    core = HarmoniaCore("k", 4, 32, 64, head_dim=64, m=4, rotation="none", window=9, start=20)

    assert repr(eval(repr(core))) == repr(core) and "kind='k', rows=4, inner=32, columns=64" in repr(core)
