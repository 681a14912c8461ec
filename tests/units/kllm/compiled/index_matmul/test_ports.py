"""Outputs of index_matmul between the ports, thousands at once: those of the unit, which makes one after the other."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.orders import Exact
from refemu.formats.kllm.kllm_arith import KllmArith
from refemu.units.kllm import index_matmul
from refemu.units.kllm.index_matmul.cases import drawn
from refemu.units.kllm.index_matmul.compiled import ports as index_matmul_ports_compiled
from refemu.units.kllm.weighted_sum import compiled as weighted_sum_compiled
from refemu.units.unit import Config
from tests.units.kllm.kmeans_operands import ARITHS


def configured(arith: KllmArith, k: int = 20, a_bits: int = 2, b_bits: int = 3, integer: bool = False) -> Config:
    return Config(k=k, a_bits=a_bits, b_bits=b_bits, integer=integer, preset=arith)


def inputs(config: Config, wild: bool = False, rows: int = 9) -> dict[str, Any]:
    """Random rows; entries of a float32 table are the products of centroids."""
    made: dict[str, Any] = drawn("index_matmul", config, index_matmul.UNIT.ports(config).inputs, rows, rows, 5)[wild]
    if config["preset"].table == "fp32":
        a, b = (made[f"{side}_codebook"].astype(np.uint16).view(np.float16).astype(np.float32) for side in "ab")
        made["products"] = (a[:, :, None] * b[:, None, :]).reshape(rows, -1).view(np.uint32)
    return made


def same(config: Config, given: dict[str, Any]) -> bool:
    """Whether unit and compiled form agree in every field."""
    return index_matmul.run(**given, **config).equals(index_matmul_ports_compiled.run(**given, **config))


@pytest.mark.parametrize("wild", [False, True], ids=["real", "wild"])
@pytest.mark.parametrize("name", ARITHS)
def test_many_outputs_are_those_of_the_unit(name: str, wild: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every accumulator, order and table; in one go, and in parts of four outputs."""
    config = configured(ARITHS[name][0])
    given = inputs(config, wild)

    assert same(config, given)
    monkeypatch.setattr(index_matmul_ports_compiled, "BATCH", 4)
    monkeypatch.setattr(weighted_sum_compiled, "BATCH", 3)
    assert same(config, given)


@pytest.mark.parametrize("name", ["paper", "exact", "fma", "fp32", "lanes"])
def test_many_integer_outputs_are_those_of_the_unit(name: str) -> None:
    config = configured(ARITHS[name][0], integer=True)

    assert same(config, inputs(config)) and same(config, inputs(config, wild=True))


def test_table_is_wide_for_outputs_that_have_one() -> None:
    """One float32 entry among those of fp16: the other outputs are unchanged."""
    config = configured(ARITHS["wide table"][0])
    given = inputs(config)
    given["products"] = given["products"].view(np.float32).astype(np.float16).astype(np.float32).view(np.uint32)
    before = index_matmul_ports_compiled.run(**given, **config)
    given["products"][3, 5] += 1
    after = index_matmul_ports_compiled.run(**given, **config)

    assert np.delete(before.y, 3).tolist() == np.delete(after.y, 3).tolist() and same(config, given)


@pytest.mark.parametrize(("name", "y"), [("paper", 0), ("fma", 0x8000), ("fp32", 0x8000), ("exact", 0x8000)])
def test_positions_that_are_counted_keep_sign_of_zero(name: str, y: int) -> None:
    """What is left out is -2**-48, and what is counted -2**-35: fused steps leave -0 of both, and of their sum."""
    config = configured(ARITHS[name][0], k=3, a_bits=1, b_bits=1)
    given: dict[str, Any] = {
        "a_index": [0, 0, 0],
        "a_mask": [1, 0, 0],
        "a_outlier": [0x8001, 0, 0],
        "a_scale": 0x1000,
        "a_codebook": [0, 0],
        "b_index": [0, 0, 0],
        "b_mask": [1, 0, 0],
        "b_outlier": [1, 0, 0],
        "b_scale": 0x3C00,
        "b_codebook": [0, 0],
        "products": [0x8001, 0, 0, 0],
    }

    assert index_matmul_ports_compiled.run(**given, **config).y.tolist() == y and same(config, given)


def test_values_between_fp16_values_decided_by_unit() -> None:
    """Exactly midway, and 2**-20 above and below, over an even and an odd value: one rounding, ties to even."""
    config = configured(KllmArith.preset("exact"), k=3, a_bits=1, b_bits=1)
    given: dict[str, Any] = {
        "a_index": [1, 0, 0],
        "a_mask": [0, 0, 1],
        "a_outlier": [[0, 0, low] for low in (0, 0x0010, 0x8010)],
        "a_scale": 0x3C00,
        "a_codebook": [0x1000, 0x3C00],
        "b_index": [1, 1, 1],
        "b_mask": [0, 0, 0],
        "b_outlier": [0, 0, 0],
        "b_scale": 0x3C00,
        "b_codebook": [0x3800, 0x3C00],
        "products": [[[0x0C00, 0x1000, 0x3800, one]] for one in (0x3C00, 0x3C01)],
    }
    result = index_matmul_ports_compiled.run(**given, **config)

    assert result.y.tolist() == [[0x3C00, 0x3C01, 0x3C00], [0x3C02, 0x3C02, 0x3C01]] and same(config, given)


def test_exact_sums_beyond_64_bits_decided_by_unit() -> None:
    """More than 2**15 positions of one index, and entries of the largest fp16 value."""
    k = (1 << 15) + 64
    config = Config(k=k, a_bits=4, b_bits=4, integer=False, preset=KllmArith(acc="exact", order=Exact()))
    nothing, book = np.zeros(k, np.uint16), np.full(16, 0x3000, np.uint16)
    given: dict[str, Any] = {
        f"{side}_{name}": array
        for side in "ab"
        for name, array in (
            ("index", nothing),
            ("mask", nothing),
            ("outlier", nothing),
            ("scale", 1),
            ("codebook", book),
        )
    }
    given["products"] = np.full(256, 0x7BFF, np.uint16)

    assert same(config, given)


def test_one_position_has_no_axis_of_lanes() -> None:
    config = configured(KllmArith(), k=1)

    assert same(config, inputs(config))


def test_shapes_broadcast() -> None:
    """Two columns by three rows of A."""
    config = configured(KllmArith())
    given = inputs(config)
    given = {name: array[:3, None] if name.startswith("a") else array[:1, None] for name, array in given.items()}
    given["b_index"] = inputs(config)["b_index"][None, :2]

    assert index_matmul_ports_compiled.run(**given, **config).y.shape == (3, 2) and same(config, given)
