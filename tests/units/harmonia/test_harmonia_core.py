"""The core against an oracle of its own: every register after every event, codes and counters of every kind."""

from functools import cached_property
from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused
from refemu.formats import BFP4, BFP8
from refemu.formats.groupint import INT4_G128
from refemu.units.harmonia import harmonia_core, k_offset
from refemu.units.harmonia.harmonia_core import HarmoniaCore
from refemu.units.harmonia.harmonia_core.plan import plan
from refemu.units.harmonia.harmonia_core.ports import COUNTERS
from tests.oracles.harmonia import bfp, units
from tests.oracles.harmonia import core as oracle

IMPLEMENTATIONS = [pytest.param(harmonia_core.run, id="unit"), pytest.param(harmonia_core.UNIT.run_jit, id="twin")]
FORMATS = {"bfp8": BFP8, "bfp4": BFP4}


def half(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


class Product:
    """A random product: its ports, its configuration, and the same operands for the oracle."""

    def __init__(
        self,
        kind: str,
        rows: int,
        inner: int,
        columns: int,
        b_type: str = "int4",
        seed: int = 1,
        frozen: np.ndarray | None = None,
        **options: Any,
    ) -> None:
        left, right = half((rows, inner), seed), half((columns, inner), seed + 1)
        a, groups = BFP8.encode(left), -(-inner // 32)
        self.config: dict[str, Any] = {
            "kind": kind,
            "rows": rows,
            "inner": inner,
            "columns": columns,
            "b_type": b_type,
            **options,
        }
        zeros, none = np.zeros((columns, inner), int), np.zeros((columns, groups), int)
        self.a = [bfp.encode(row) for row in left.view(np.uint16).tolist()]
        if b_type == "int4":
            b: Any = INT4_G128.encode(right.astype(np.float32))
            factors = b.scales_of(32).view(np.uint16)
            fields = (b.code & 15, zeros, none, factors)
            codes = np.pad(b.code, ((0, 0), (0, 32 * groups - inner))).reshape(columns, groups, 32)
            self.b: Any = [
                list(zip(row, words, strict=True)) for row, words in zip(codes.tolist(), factors.tolist(), strict=True)
            ]
        else:
            b = FORMATS[b_type].encode(right)
            fields = (b.mantissa, b.sign, b.exponent, none)
            self.b = [bfp.encode(row, 8 if b_type == "bfp8" else 4) for row in right.view(np.uint16).tolist()]
        names = ("a_sign", "a_mag", "a_exp", "b", "b_sign", "b_exp", "w_scale")
        arrays = dict(zip(names, (a.sign, a.mantissa, a.exponent, *fields), strict=True))
        self.frozen = () if frozen is None else frozen.view(np.uint16).tolist()
        if frozen is not None:
            arrays["frozen"] = frozen.view(np.uint16)
        self.ports = {
            name: array.reshape(-1) if array.size > 1 else array.reshape(()) for name, array in arrays.items()
        }
        self.wanted = oracle.Product(**self.config)

    def run(self, run: Any, **options: Any) -> Any:
        return run(**{**self.ports, **self.config, **options})

    @cached_property
    def moments(self) -> list[oracle.Moment]:
        return list(oracle.events(self.wanted, self.a, self.b, self.frozen))

    def y(self, result: Any) -> np.ndarray:
        return np.asarray(result.y).reshape(self.wanted.rows, self.wanted.columns)


def offsets(channels: int, seed: int = 5) -> np.ndarray:
    """What a prompt leaves behind: one channel in 32."""
    found = np.zeros(channels, np.float16)
    found[7::32] = half((channels,), seed)[7::32]
    return found


KEYS = {"rotation": "interleaved", "head_dim": 16}
PRODUCTS = {
    "linear": Product("linear", 9, 40, 33),
    "linear of one": Product("linear", 1, 1, 1),
    "silu": Product("linear", 4, 32, 40, activation="silu"),
    "relu": Product("linear", 4, 32, 40, activation="relu"),
    "final": Product("final", 9, 64, 20),
    "exact": Product("linear", 3, 64, 16, partial="fp32"),
    "context": Product("context", 5, 70, 40, "bfp8"),
    "context at 4 bits": Product("context", 5, 32, 40, "bfp4", m=6),
    "v": Product("v", 37, 32, 20),
    "v of 4 bits": Product("v", 1, 32, 17, m=4),
    "v of one": Product("v", 1, 33, 1),
    "v by tiles": Product("v", 70, 32, 40, tile_m=32, tile_k=32),
    "tiles down": Product("linear", 40, 32, 70, tile_m=32, tile_k=32, force=1),
    "tiles along": Product("linear", 40, 32, 70, tile_m=32, tile_k=32, force=2),
    "score": Product("score", 3, 32, 35, "bfp8", start=30),
    "score of 16": Product("score", 9, 16, 70, "bfp4", start=61),
    "q": Product("q", 5, 32, 128, head_dim=64, start=3),
    "q interleaved": Product("q", 9, 32, 64, start=70, **KEYS),
    "q by tiles": Product("q", 33, 32, 144, head_dim=48, tile_m=32, tile_k=32, force=1),
    "q not turned": Product("q", 3, 32, 20, head_dim=5, rotation="none"),
    "k": Product("k", 5, 32, 64, head_dim=64),
    "k of a window": Product("k", 32, 32, 32),
    "k beyond it": Product("k", 34, 32, 64, **KEYS),
    "k by tiles": Product("k", 41, 32, 80, tile_m=32, tile_k=32, head_dim=40, force=1),
    "k, two channels": Product("k", 10, 32, 96, head_dim=48, rotation="none"),
    "k of a short prompt": Product("k", 12, 32, 32, window=5),
    "k without offsets": Product("k", 34, 32, 32, window=0),
    "later without": Product("k", 2, 32, 32, window=0, start=9),
    "a later key": Product("k", 1, 32, 64, start=100, frozen=offsets(64), **KEYS),
    "later keys": Product("k", 10, 32, 64, head_dim=64, start=32, frozen=offsets(64)),
    "behind a short prompt": Product("k", 3, 32, 32, start=5, window=5, frozen=offsets(32), base=100),
}
CASES = [pytest.param(product, id=name) for name, product in PRODUCTS.items()]


@pytest.mark.long
@pytest.mark.parametrize("product", CASES)
def test_every_register_after_every_event(product: Product) -> None:
    """[harmonia §IV-A, Fig. 12] D-harmonia-25, D-harmonia-26: order of the steps, words on their way, counters."""
    states = list(HarmoniaCore(**product.config).steps(**product.ports))
    wanted = product.moments

    assert [state.event for state in states] == [moment.event for moment in wanted]
    assert [state.index for state in states] == list(range(len(wanted)))
    for state, moment in zip(states, wanted, strict=True):
        for name in ("sums", "y", "sign", "mantissa", "exponent", "offset"):
            value = getattr(state, name)
            assert (value if isinstance(value, tuple) else (value,)) == getattr(moment, name), (name, state.index)
        assert {name: getattr(state, name) for name in COUNTERS} == moment.counters
        if product.wanted.shifted:
            generator = k_offset.State(*state.offsets)
            assert (generator.peak, generator.frozen) == (moment.peak, int(moment.frozen))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("product", CASES)
def test_results_are_the_oracles(run: Any, product: Product) -> None:
    """[harmonia §IV-A] D-harmonia-25, D-harmonia-26: codes, words, offsets and counters at the end. D-arith-8."""
    result, wanted = product.run(run), product.moments[-1]

    for name in ("sign", "mantissa", "exponent", "y", "offset"):
        assert np.atleast_1d(getattr(result, name)).astype(int).tolist() == list(getattr(wanted, name)), name
    assert {name: getattr(result, name) for name in COUNTERS} == wanted.counters


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_a_prompt_and_later_keys_lose_the_same(run: Any) -> None:
    """[harmonia §III-C] D-harmonia-26: whatever is behind the window, in the prompt or later, has its offsets."""
    whole = Product("k", 40, 32, 64, **KEYS)
    begun = whole.run(run)
    later = Product("k", 3, 32, 64, seed=9, start=40, frozen=begun.offset.view(np.float16), **KEYS)
    words, offset = oracle.words(later.wanted, later.a, later.b, begun.offset.tolist())

    assert begun.offset.any() and offset == begun.offset.tolist()
    result = later.run(run)
    assert later.y(result).tolist() == words and result.offset.tolist() == offset
    assert (begun.tracked, result.tracked) == (32 * 64 + 2 * 63, 0)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_queries_and_later_keys_differ_by_the_offsets_only(run: Any) -> None:
    """[harmonia §IV-A (5)] At position 100 nothing is tracked: zeros in, zeros off, whatever the peaks are."""
    later = Product("k", 1, 64, 64, start=100, frozen=np.zeros(64, np.float16))
    k, q = later.run(run), replace_kind(later, "q").run(run)

    assert k.y.tolist() == q.y.tolist() and k.tracked == 0 and not k.offset.any()


def replace_kind(product: Product, kind: str) -> Product:
    config = {name: value for name, value in product.config.items() if name != "kind"}
    return Product(kind, **config)


def events(product: Product) -> list[Any]:
    return [state.event for state in HarmoniaCore(**product.config).steps(**product.ports)]


def test_steps_of_one_block_come_in_the_papers_order() -> None:
    """[harmonia §IV-A, Fig. 12] (1) load, (2) dispatch, (3) compute, (4) FP2Half and vector unit, (6) convert, (7)."""
    common = ["load", "load", "dispatch", "compute", "fp2half"]

    assert events(Product("linear", 8, 32, 32)) == [*common, "convert", "store"]
    assert events(Product("final", 8, 32, 32)) == [*common, "store"]
    assert events(Product("k", 8, 32, 32)) == [*common, "vector", "offset", "convert", "store"]


def test_keys_of_the_window_wait_for_its_end() -> None:
    """[harmonia §IV-A (5)] Nothing of the first 32 tokens is converted before all are tracked; later ones go on."""
    steps = events(Product("k", 41, 32, 32))
    waiting = [step for step in steps if step in ("offset", "convert")]

    assert waiting == ["offset"] * 4 + ["convert"] * 4 + ["offset", "convert"] * 2


def test_heads_and_rows_of_scores_wait_until_they_are_whole() -> None:
    """[harmonia §IV-A (4)] The temporary SRAM holds a head for the rotation, a row for the softmax."""
    turned = events(Product("q", 8, 32, 64, head_dim=64))
    assert turned == ["load", "load", *["dispatch", "compute", "fp2half"] * 2, "vector", *["convert", "store"] * 2]
    scores = events(Product("score", 8, 32, 70, "bfp8", start=62))
    assert scores.index("vector") > max(i for i, step in enumerate(scores) if step == "compute")


@pytest.mark.parametrize("force", [1, 2])
def test_both_dataflows_give_the_same_bits(force: int) -> None:
    """[harmonia §IV-D] Other order, other accesses, same C."""
    product = Product("linear", 40, 32, 70)
    one, two = (product.run(harmonia_core.UNIT.run_jit, tile_m=32, tile_k=32, force=flow) for flow in (force, 0))

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


def test_a_result_beyond_fp16_is_refused_by_the_converter_and_changes_nothing() -> None:
    product = Product("linear", 1, 32, 32, "int4")
    ports = product.ports | {"a_exp": np.array(30), "w_scale": np.full(32, 0x7BFF)}
    core = HarmoniaCore(**product.config)
    inputs = [ports[port.name].tolist() for port in core.ports.inputs]
    core.step(*inputs)
    while core.state.event != "fp2half":
        core.step()
    before = core.snapshot()
    with pytest.raises(Refused, match=r"bfp_converter: x must hold no infinity and NaN; .*, got 0x7c00 at index"):
        core.step()

    assert core.snapshot() == before
    with pytest.raises(Refused, match=r"step takes no inputs now: \w+ came last"):
        core.step(*inputs)


def test_the_plan_of_a_feed_forward_layer_takes_no_step_per_read() -> None:
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
    pytest.param({"kind": "v", "activation": "silu"}, "activation goes with kind 'linear', got 'v'", id="which"),
    pytest.param({"kind": "q", "head_dim": 12}, "whole heads, got 32 columns and head_dim 12", id="head"),
    pytest.param({"kind": "k", "head_dim": 1}, "head_dim must be even under rotation 'half', got 1", id="odd"),
    pytest.param({"rotation": "both"}, "rotation must be one of 'half', 'interleaved', 'none', got 'both'", id="pairs"),
    pytest.param({"window": 33}, r"window must be in \[0, 32\], got 33", id="window"),
    pytest.param({"start": -1}, r"start must be in \[0, 4194302\], got -1", id="start"),
    pytest.param({"kind": "k", "start": 8}, "start must be 0 or behind the window of 32 tokens, .* got 8", id="inside"),
    pytest.param({"kind": "k", "start": 32}, "frozen: kind 'k' from position 32 on needs the offsets", id="frozen"),
    pytest.param(
        {"kind": "k", "frozen": np.zeros(32, int)}, "frozen: kind 'k' from position 0 on takes no offsets", id="unasked"
    ),
    pytest.param(
        {"kind": "k", "start": 32, "frozen": np.full(32, 0x7C00)}, "frozen must be finite, got 0x7c00 at", id="infinite"
    ),
    pytest.param(
        {"kind": "k", "start": 32, "frozen": np.full(32, 0x3C00)},
        "frozen must have at most 1 channels that are not 0, got 32",
        id="many",
    ),
    pytest.param({"kind": "score", "start": 32}, "2 queries at 32 need as many keys, got 32", id="keys"),
    pytest.param({"b": np.full(1024, 16)}, r"b 16 at index \(0, 0, 0\) has more than 4 bits in mode M8W4", id="b"),
    pytest.param({"b_exp": np.ones(32, int)}, r"b_exp 1 at index \(0, 0\) must be 0", id="b_exp"),
    pytest.param({"b_type": "bfp8"}, r"w_scale .* must be 0 in mode M8M8", id="w_scale"),
    pytest.param({"tile_m": 40}, "m must be a multiple of 32, got 40", id="tile"),
    pytest.param({"partial": "x"}, "partial must be one of", id="partial"),
]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("change", "message"), BAD)
def test_refuses(run: Any, change: dict[str, Any], message: str) -> None:
    product = Product("linear", 2, 32, 32)
    with pytest.raises(Refused, match=message):
        run(**{**product.ports, **product.config, **change})


def test_repr_evaluates_back() -> None:
    core = HarmoniaCore("k", 4, 32, 64, head_dim=64, m=4, rotation="none", window=9, start=20)

    assert repr(eval(repr(core))) == repr(core) and "kind='k', rows=4, inner=32, columns=64" in repr(core)
