"""Dot products and tiles of a run: what the units answer is what the scheme multiplied."""

import dataclasses
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

from refemu import models, units
from refemu.models import schemes
from refemu.models.schemes.olive.linear import Part, Product
from refemu.models.schemes.olive.tap_sums import padded
from refemu.units.unit import Cases
from tests.models.schemes.tap_cases import evaluated

IDS = list(b"It is a truth. It is")
SCHEMES = ["olive-4", "olive-8", "olive-8:overflow=saturate"]


@cache
def prepared(scheme: str) -> Any:
    """Four candidates instead of 88: the search has its own tests."""
    config: Any = dataclasses.replace(schemes.parse(scheme), low=90, high=130, step=10)  # type: ignore[type-var]
    return models.prepare("tiny", config, calibration=list(b"a truth universally acknowledged" * 4))


@cache
def recorded(scheme: str, count: int = len(IDS)) -> list[tuple[int, str, Cases]]:
    calls: list[tuple[int, str, Cases]] = []
    models.run("tiny", IDS[:count], prepared(scheme), taps=lambda *call: calls.append(call))
    return calls


def cases(scheme: str, unit: str, count: int = len(IDS)) -> list[Cases]:
    return [case for _, name, case in recorded(scheme, count) if name == unit]


@cache
def computed(scheme: str, count: int = len(IDS)) -> dict[str, np.ndarray]:
    """The accumulators of every linear layer, (tokens, outputs), by the name of its output."""
    sums: dict[str, np.ndarray] = {}
    product, reduced = Part.__call__, Part._reduce

    def reducing(self: Part, exact: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, int]:
        acc, overflowed = reduced(self, exact, grid)
        sums.update({f"{name}.output": acc[:, some].astype(np.int64) for name, some in self.columns.items()})
        return acc, overflowed

    def calling(self: Part, x: np.ndarray) -> Product:
        with mock.patch.object(Part, "_reduce", reducing):
            return product(self, x)

    with mock.patch.object(Part, "__call__", calling):
        models.run("tiny", IDS[:count], prepared(scheme))
    return sums


def model_s(scheme: str, case: Cases, count: int = len(IDS)) -> np.ndarray:
    """The accumulators of the layer of a case, from its first token and output on."""
    return computed(scheme, count)[case.source["tensor"]][case.source["token"] :, case.source["row"] :]


def operands(scheme: str, case: Cases, count: int = len(IDS)) -> tuple[np.ndarray, np.ndarray]:
    """Grid values of the input (tokens, inputs) and of the weight (outputs, inputs) of a case."""
    name = case.source["tensor"].removesuffix(".output")
    [part] = [part for part in prepared(scheme).parts() if name in part.names]
    tensor = f"{part.names[0]}.input"
    [pairs] = [one.inputs["pair"] for one in cases(scheme, "ovp_decoder", count) if one.source["tensor"] == tensor]
    return (
        part.fmt.decode(part.fmt.split(pairs)).reshape(count, -1).astype(object),
        part.weights[part.names.index(name)].grid().astype(object),
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_linear_layer_has_its_largest_sum(scheme: str) -> None:
    unit = "olive_mac" if scheme == "olive-4" else "olive_pe8"
    made, operations = cases(scheme, unit), cases(scheme, "olive_edp")

    assert [case.source for case in made] == [case.source for case in operations]
    assert len({case.source["tensor"] for case in made}) == len(made) == 3 * 7
    for case, other in zip(made, operations, strict=True):
        x, w = operands(scheme, case)
        sums = x @ w.T
        acc, last = evaluated(unit, case).acc[0, -1], evaluated("olive_edp", other)

        assert case.inputs["load"].tolist() == [[1] + [0] * x.shape[1]] and not case.inputs["acc_in"].any()
        assert case.source["largest"] == abs(sums[case.source["token"], case.source["row"]]) == np.abs(sums).max()
        assert acc == last.d[-1] == model_s(scheme, case)[0, 0] == sums[case.source["token"], case.source["row"]]
        assert last.d[:-1].tolist() == other.inputs["c"][1:].tolist() and other.inputs["c"][0] == 0
        assert not last.illegal.any()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tiles_have_largest_input_and_the_models_sums(scheme: str) -> None:
    """An instruction for every chunk of K, whose C is the D of the one before."""
    tiles = cases(scheme, "mmaovp")
    terms = 32 if scheme == "olive-4" else 16

    assert len({case.source["tensor"] for case in tiles}) == len(tiles) == 3 * 7
    for case in tiles:
        x, _ = operands(scheme, case)
        token, result = case.source["token"], evaluated("mmaovp", case)
        sums = model_s(scheme, case)[:8, :8]
        wanted = np.zeros((8, 8), np.int64)
        wanted[: len(sums)] = sums

        assert token <= np.unravel_index(np.argmax(np.abs(x)), x.shape)[0] < token + 8
        assert token % 8 == case.source["row"] % 8 == 0 and len(result.d) == -(-x.shape[1] // terms)
        assert not case.inputs["c"][0].any() and np.array_equal(case.inputs["c"][1:], result.d[:-1])
        assert np.array_equal(result.d[-1].reshape(8, 8), wanted)


@pytest.mark.parametrize(("scheme", "count"), [*((scheme, len(IDS)) for scheme in SCHEMES), ("olive-4", 2)])
def test_array_tile_equals_the_model_over_k(scheme: str, count: int) -> None:
    """Five tokens, or as many as there are, by six outputs; the largest input is among them."""
    found = cases(scheme, "olive_systolic", count)
    m = min(5, count)

    assert len({case.source["tensor"] for case in found}) == len(found) == 3 * 7
    for case in found:
        x, _ = operands(scheme, case, count)
        config = units.find("olive_systolic").config(case.config)
        token, result = case.source["token"], evaluated("olive_systolic", case)

        assert token <= np.unravel_index(np.argmax(np.abs(x)), x.shape)[0] < token + m
        assert (config["m"], config["n"], config["k"]) == (m, 6, x.shape[1])
        assert np.array_equal(result.d.reshape(m, 6), model_s(scheme, case, count)[:m, :6])


@pytest.mark.parametrize(("scheme", "count"), [*((scheme, len(IDS)) for scheme in SCHEMES), ("olive-4", 2)])
def test_edges_of_sequential_array_drain_the_sums(scheme: str, count: int) -> None:
    """The grid of the 4 x 2 array, 2 x 1 quads at 8 bits: what leaves to the south is the last row first."""
    found = cases(scheme, "olive_systolic_clocked", count)
    wide = scheme != "olive-4"
    rows, cols = (2, 1) if wide else (4, 2)
    m = min(rows, count)

    assert len({case.source["tensor"] for case in found}) == len(found) == 3 * 7
    assert ("int4_flint4" in {case.config for case in found}) == ("saturate" not in scheme)
    for case in found:
        x, _ = operands(scheme, case, count)
        token, result = case.source["token"], evaluated("olive_systolic_clocked", case)
        drained = result.south[0, -rows:, :cols][::-1][:m]

        assert token <= np.unravel_index(np.argmax(np.abs(x)), x.shape)[0] < token + m
        assert (case.source["rows"], case.source["outputs"]) == (m, cols)
        assert result.south.shape[1] == x.shape[1] + 2 * rows + cols - 2
        assert np.array_equal(drained, model_s(scheme, case, count)[:m, :cols])


def test_zero_pairs_fill_the_ports_of_a_unit() -> None:
    assert padded(np.array([[1, 2, 3]], np.uint8), 2, 2).tolist() == [[1, 2, 3, 0], [0, 0, 0, 0]]
    assert padded(np.array([[1, 2]], np.uint16), 1, 2).dtype == np.uint16


def test_sum_beyond_32_bits_wraps_or_saturates() -> None:
    """`running` in a part whose inputs are all the largest outlier: 4 products of 2**30 in each operation of 8."""
    from refemu.models.schemes.olive.tap_sums import running

    made = {}
    for scheme in ("olive-8", "olive-8:overflow=saturate"):
        [part] = [one for one in prepared(scheme).parts() if "blk.0.o" in one.names]
        pairs = np.full((1, 8), 0x8040, np.uint16)
        made[scheme] = running(pairs, pairs, part, part.weights[0]).reshape(-1).tolist()

    assert made == {"olive-8": [0, 0, 0], "olive-8:overflow=saturate": [0, (1 << 31) - 1, (1 << 31) - 1]}
