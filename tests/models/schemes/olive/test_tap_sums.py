"""Dot products and tiles of a run: what the units answer is what the scheme multiplied."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from refemu import models, units
from refemu.models import schemes
from refemu.models.schemes.olive.tap_sums import padded
from refemu.units.unit import Cases

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


def answer(unit: str, case: Cases) -> Any:
    return units.find(unit).evaluate(units.find(unit).configs[case.config], case.inputs)


def operands(scheme: str, case: Cases, count: int = len(IDS)) -> tuple[np.ndarray, np.ndarray]:
    """Grid values of the input (tokens, inputs) and of the weight (outputs, inputs) behind a case."""
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
        acc, last = answer(unit, case).acc[0, -1], answer("olive_edp", other)

        assert case.inputs["load"].tolist() == [[1] + [0] * x.shape[1]] and not case.inputs["acc_in"].any()
        assert case.source["largest"] == abs(sums[case.source["token"], case.source["row"]]) == np.abs(sums).max()
        assert acc == last.d[-1] == sums[case.source["token"], case.source["row"]]
        assert last.d[:-1].tolist() == other.inputs["c"][1:].tolist() and other.inputs["c"][0] == 0
        assert not last.illegal.any()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tiles_hold_the_largest_input_and_continue_each_other(scheme: str) -> None:
    tiles = cases(scheme, "mmaovp")
    terms = 32 if scheme == "olive-4" else 16

    assert len({case.source["tensor"] for case in tiles}) == len(tiles) == 3 * 7
    for case in tiles:
        x, w = operands(scheme, case)
        token, row, chunks = (case.source[name] for name in ("token", "row", "chunks"))
        result = answer("mmaovp", case)
        peak = np.unravel_index(np.argmax(np.abs(x)), x.shape)

        assert token <= peak[0] < token + 8 and peak[1] // terms in chunks
        assert set(range(min(4, -(-x.shape[1] // terms)))) <= set(chunks)
        for at, chunk in enumerate(chunks):
            before, end = (
                x[token : token + 8, :stop] @ w[row : row + 8, :stop].T for stop in (terms * chunk, terms * (chunk + 1))
            )
            wanted = np.zeros((2, 8, 8), object)
            wanted[:, : before.shape[0], : before.shape[1]] = before, end
            assert case.inputs["c"][at].tolist() == wanted[0].reshape(-1).tolist()
            assert result.d[at].tolist() == wanted[1].reshape(-1).tolist()


@pytest.mark.parametrize(("scheme", "count"), [*((scheme, len(IDS)) for scheme in SCHEMES), ("olive-4", 2)])
def test_array_multiplies_the_corner_and_the_part_around_the_largest_input(scheme: str, count: int) -> None:
    """Two tokens do not fill the array's five rows: the rest are zeros."""
    found = cases(scheme, "olive_systolic", count)

    assert found
    for case in found:
        x, w = operands(scheme, case, count)
        token, row, pair = (case.source[name] for name in ("token", "row", "pair"))
        result = answer("olive_systolic", case)
        peak = np.unravel_index(np.argmax(np.abs(x)), x.shape)

        assert token <= peak[0] < token + 5 and 2 * pair <= peak[1] < 2 * pair + 6
        for at, (i, j, k) in enumerate(((0, 0, 0), (token, row, 2 * pair))):
            wanted = np.zeros((5, 6), object)
            part = x[i : i + 5, k : k + 6] @ w[j : j + 6, k : k + 6].T
            wanted[: len(part)] = part
            assert result.d[at].tolist() == wanted.reshape(-1).tolist()


def test_zero_pairs_fill_what_a_unit_wants_and_a_matrix_has_not() -> None:
    assert padded(np.array([[1, 2, 3]], np.uint8), 2, 2).tolist() == [[1, 2, 3, 0], [0, 0, 0, 0]]
    assert padded(np.array([[1, 2]], np.uint16), 1, 2).dtype == np.uint16


def test_a_sum_that_leaves_32_bits_wraps_or_saturates_at_each_operation() -> None:
    """`running` in a part whose inputs are all the largest outlier: 4 products of 2**30 in each operation of 8."""
    from refemu.models.schemes.olive.tap_sums import running

    made = {}
    for scheme in ("olive-8", "olive-8:overflow=saturate"):
        [part] = [one for one in prepared(scheme).parts() if "blk.0.o" in one.names]
        pairs = np.full((1, 8), 0x8040, np.uint16)
        made[scheme] = running(pairs, pairs, part, part.weights[0]).reshape(-1).tolist()

    assert made == {"olive-8": [0, 0, 0], "olive-8:overflow=saturate": [0, (1 << 31) - 1, (1 << 31) - 1]}
