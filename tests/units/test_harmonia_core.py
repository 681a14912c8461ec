"""The core against its parts: codes of every kind of product, the order of its steps, counters of all units."""

from typing import Any

import numpy as np
import pytest

from refemu.arith import fp16, fp32, rotary, tables
from refemu.arith.checks import Refused
from refemu.arith.orders import Sequential
from refemu.formats import BFP4, BFP8, Bfp
from refemu.formats.bfp_dot import bfp_dot, bfp_dot_int
from refemu.formats.groupint import INT4_G128
from refemu.units import harmonia_core
from refemu.units.harmonia_core import HarmoniaCore
from tests.oracles import bfp as oracle_bfp
from tests.oracles import harmonia_units as oracle

IMPLEMENTATIONS = [pytest.param(harmonia_core.run, id="unit"), pytest.param(harmonia_core.UNIT.run_jit, id="twin")]


def half(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


class Product:
    """A random product: its ports, its configuration and its FP16 sums."""

    def __init__(self, kind: str, rows: int, inner: int, columns: int, b_type: str = "int4", seed: int = 1) -> None:
        a, right = BFP8.encode(half((rows, inner), seed)), half((columns, inner), seed + 1)
        b: Any = INT4_G128.encode(right.astype(np.float32)) if b_type == "int4" else (
            BFP8 if b_type == "bfp8" else BFP4).encode(right)
        self.sums = fp16.to_f16(bfp_dot_int(a, b) if b_type == "int4" else bfp_dot(a, b))
        self.config: dict[str, Any] = {"kind": kind, "rows": rows, "inner": inner, "columns": columns, "b_type": b_type}
        zeros, groups = np.zeros((columns, inner), int), np.zeros((columns, -(-inner // 32)), int)
        fields = (b.code & 15, zeros, groups, b.scales_of(32).view(np.uint16)) if b_type == "int4" else (
            b.mantissa, b.sign, b.exponent, groups)
        names = ("a_sign", "a_mag", "a_exp", "b", "b_sign", "b_exp", "w_scale")
        self.ports = {name: array.reshape(-1) if array.size > 1 else array.reshape(()) for name, array in
                      zip(names, (a.sign, a.mantissa, a.exponent, *fields), strict=True)}

    def run(self, run: Any, **options: Any) -> Any:
        return run(**self.ports, **self.config, **options)

    def y(self, result: Any) -> np.ndarray:
        return fp16.values(result.y).reshape(self.sums.shape)


def codes(result: Any) -> tuple[list[int], list[int], list[int]]:
    sign, mantissa, exponent = (np.atleast_1d(x).astype(int).tolist()
                                for x in (result.sign, result.mantissa, result.exponent))
    return sign, mantissa, exponent


def oracle_codes(y: np.ndarray, m: int, axis: int) -> tuple[list[int], list[int], list[int]]:
    """Signs, mantissas and exponents of a matrix, row-major, by the oracle."""
    rows = y if axis else y.T
    encoded = [oracle_bfp.encode(row.view(np.uint16).tolist(), m) for row in np.ascontiguousarray(rows)]
    parts = [np.array([[x for group in row for x in getattr(group, name)][:rows.shape[1]] for row in encoded])
             for name in ("sign", "mantissa")]
    parts.append(np.array([[group.exponent for group in row] for row in encoded]))
    sign, mantissa, exponent = ((part if axis else part.T).reshape(-1).tolist() for part in parts)
    return sign, mantissa, exponent


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("kind", "shape", "b_type", "m"), [
    ("linear", (9, 40, 33), "int4", 8), ("context", (5, 70, 40), "bfp8", 8), ("context", (5, 32, 40), "bfp4", 6),
    ("v", (37, 32, 20), "int4", 8), ("v", (1, 32, 17), "int4", 4), ("linear", (1, 1, 1), "int4", 8),
    ("v", (1, 33, 1), "int4", 8)])
def test_codes_of_plain_products(run: Any, kind: str, shape: tuple[int, int, int], b_type: str, m: int) -> None:
    """[harmonia §IV-A] Steps (3), (4) and (6): FP32 sums, FP16, groups along channels, of V along tokens."""
    product = Product(kind, *shape, b_type)
    result = product.run(run, m=m)

    assert product.y(result).tobytes() == product.sums.tobytes()
    assert codes(result) == oracle_codes(product.sums, m, int(kind != "v"))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize("activation", ["silu", "relu"])
def test_activation_comes_before_the_conversion(run: Any, activation: str) -> None:
    product = Product("linear", 4, 32, 40)
    words = tables.table16("silu")[product.sums.view(np.uint16)].view(np.float16)
    wanted = words if activation == "silu" else np.where(product.sums > 0, product.sums, np.float16(0))
    result = product.run(run, activation=activation)

    assert product.y(result).tobytes() == wanted.tobytes() and codes(result) == oracle_codes(wanted, 8, 1)


def rotated(sums: np.ndarray, head_dim: int, start: int) -> np.ndarray:
    cos, sin = rotary.rotary(start + np.arange(len(sums)), head_dim, 10000)
    heads = fp16.to_f32(sums).reshape(len(sums), -1, head_dim)
    return fp16.to_f16(fp32.rotate(heads, cos.astype(np.float32), sin.astype(np.float32), False)).reshape(sums.shape)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("kind", "rows"), [("q", 5), ("k", 5), ("k", 32), ("k", 34)])
def test_heads_are_turned_and_keys_shifted(run: Any, kind: str, rows: int) -> None:
    """[harmonia §III-C] D-harmonia-25: the offsets are those of the turned keys, and shift every token."""
    product = Product(kind, rows, 32, 128)
    turned = rotated(product.sums, 64, 3)
    words = turned.view(np.uint16).tolist()
    offsets, _ = oracle.k_offsets(words)
    wanted = turned if kind == "q" else fp16.values(
        np.array([oracle.apply_offsets(row, offsets) for row in words]))
    result = product.run(run, head_dim=64, start=3)

    assert product.y(result).tobytes() == wanted.tobytes() and codes(result) == oracle_codes(wanted, 8, 1)
    counted = oracle.offset_counters(rows, 128, 4)
    assert (result.tracked, result.subtractions) == ((counted["comparisons"] + counted["select_comparisons"],
                                                      counted["subtractions"]) if kind == "k" else (0, 0))


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_scores_become_probabilities_of_the_keys_seen(run: Any) -> None:
    """[harmonia §IV-A (4)] Scores in FP16, scaled inside the softmax; a key that is not seen is +0."""
    product = Product("score", 3, 32, 35, "bfp8")
    wanted = np.zeros((3, 35), np.float16)
    for r in range(3):
        seen = fp16.to_f32(product.sums[r, :31 + r]) * np.float32(1 / np.sqrt(32.0))
        wanted[r, :31 + r] = fp16.to_f16(fp32.softmax32(seen, Sequential()))
    result = product.run(run, start=30)

    assert product.y(result).tobytes() == wanted.tobytes() and codes(result) == oracle_codes(wanted, 8, 1)


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
def test_what_goes_to_the_residual_stream_stays_fp16(run: Any) -> None:
    """[harmonia §IV-A] Kind final has no step (5) and no step (6)."""
    product = Product("final", 9, 64, 20)
    result = product.run(run)

    assert product.y(result).tobytes() == product.sums.tobytes()
    assert not (result.mantissa.any() or result.exponent.any() or result.compare_cycles) and result.stored == 180


def events(product: Product, **options: Any) -> list[Any]:
    states = HarmoniaCore(**product.config, **options).steps(**product.ports)
    return [state.event for state in states]


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
    turned = events(Product("q", 8, 32, 64), head_dim=64)
    assert turned == ["load", "load", *["dispatch", "compute", "fp2half"] * 2, "vector", *["convert", "store"] * 2]
    scores = events(Product("score", 8, 32, 70, "bfp8"), start=62)
    assert scores.index("vector") > max(i for i, step in enumerate(scores) if step == "compute")


@pytest.mark.parametrize("force", [1, 2])
def test_both_dataflows_give_the_same_bits(force: int) -> None:
    """[harmonia §IV-D] Other order, other accesses, same C."""
    product = Product("linear", 40, 32, 70)
    one, two = (product.run(harmonia_core.UNIT.run_jit, tile_m=32, tile_k=32, force=flow) for flow in (force, 0))

    assert (one.y.tolist(), codes(one)) == (two.y.tolist(), codes(two))
    assert one.fetched == oracle.ema(40, 32, 70, 32, 32, force)


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
def test_codes_are_those_of_the_format(run: Any) -> None:
    product = Product("linear", 3, 32, 64)
    result, fmt = product.run(run, m=5), Bfp(5).encode(product.sums)

    assert result.mantissa.tolist() == fmt.mantissa.reshape(-1).tolist()


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
    with pytest.raises(Refused, match="step takes no inputs: fp2half came last"):
        core.step(*inputs)


BAD = [
    pytest.param({"kind": "p"}, "kind must be one of 'q', 'k'", id="kind"),
    pytest.param({"m": 12}, r"m must be in \[1, 11\], got 12", id="m"),
    pytest.param({"b_type": "int8"}, "b_type must be one of", id="b_type"),
    pytest.param({"activation": "gelu"}, "activation must be one of", id="activation"),
    pytest.param({"kind": "v", "activation": "silu"}, "activation goes with kind 'linear', got 'v'", id="which"),
    pytest.param({"kind": "q", "head_dim": 48}, "whole heads of a multiple of 32 channels", id="head"),
    pytest.param({"kind": "score", "start": 32}, "2 queries at 32 need as many keys, got 32", id="keys"),
    pytest.param({"b": np.full(1024, 16)}, r"b 16 at index \(0, 0, 0\) has more than 4 bits in mode M8W4", id="b"),
    pytest.param({"b_exp": np.ones(32, int)}, r"b_exp 1 at index \(0, 0\) must be 0", id="b_exp"),
    pytest.param({"b_type": "bfp8"}, r"w_scale .* must be 0 in mode M8M8", id="w_scale"),
    pytest.param({"tile_m": 40}, "m must be a multiple of 32, got 40", id="tile"),
    pytest.param({"partial": "x"}, "partial must be one of", id="partial")]


@pytest.mark.parametrize("run", IMPLEMENTATIONS)
@pytest.mark.parametrize(("change", "message"), BAD)
def test_refuses(run: Any, change: dict[str, Any], message: str) -> None:
    product = Product("linear", 2, 32, 32)
    with pytest.raises(Refused, match=message):
        run(**{**product.ports, **product.config, **change})


def test_repr_evaluates_back() -> None:
    core = HarmoniaCore("k", 4, 32, 64, head_dim=64, m=4)

    assert repr(eval(repr(core))) == repr(core) and "kind='k', rows=4, inner=32, columns=64" in repr(core)
