"""Faulty devices as hardware teams make them, and what an explanation of each must name.

Devices answer the stimulus of a committed set. A truth is a list of parts, each the set of ids that name it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from refemu import units
from refemu.golden.compare import answer_files
from refemu.golden.explain import table as tables
from refemu.golden.explain import unit_runs
from refemu.golden.explain.diagnosis import Diagnosis, diagnosis
from refemu.golden.faults import library
from refemu.golden.faults.fault import Fault
from refemu.golden.files import fields, sets
from refemu.golden.files.sets import Golden
from refemu.units import variant as other
from refemu.units.ports import Port
from refemu.units.variant import Variant

VECTORS = Path(__file__).parents[3] / "vectors"
Arrays = dict[str, np.ndarray]
Change = Callable[[np.ndarray, Port], np.ndarray]


@dataclass(frozen=True)
class Wrong:
    """A faulty device."""

    set: str  #: name of a committed set
    says: str
    truth: tuple[frozenset[str], ...]  #: ids of each of its changes; empty: nothing may be named
    answers: Callable[[Golden], Arrays | None]  #: None: there is no such device

    def __str__(self) -> str:
        return f"{self.set}: {self.says}"


@lru_cache(maxsize=8)
def golden(name: str) -> Golden:
    """A committed set."""
    return sets.load(VECTORS / name)


def outputs(golden: Golden) -> Arrays:
    """Answers of the right device, writable."""
    names = [entry["name"] for entry in golden.manifest["arrays"] if entry["role"] == "expected"]
    return {name: golden.arrays[name].copy() for name in names}


def outcome_of(wrong: Wrong) -> Diagnosis | None:
    """The diagnosis of a device; None if no row distinguishes it from the right one."""
    made_of = golden(wrong.set)
    arrays = wrong.answers(made_of)
    if arrays is None:
        return None
    answer = answer_files.Answer(arrays, {})
    rows = np.zeros(made_of.rows, np.bool_)
    for name in arrays:
        rows |= (answer.differing(made_of, name).reshape(made_of.rows, -1) != 0).any(axis=1)
    return diagnosis(made_of, answer, rows) if rows.any() else None


def rated(wrong: Wrong, result: Diagnosis) -> str:
    """ "right", "vague", "wrong lead" or "silent": are all mistakes among the first two explanations?"""
    if not wrong.truth:
        return "wrong lead" if result.stories else "silent"
    if not result.stories:
        return "silent"
    best = 0
    for story in result.stories[:2]:
        ids = {id for part in story for id in (part.id, *part.equivalent)}
        ids |= {"D"} if any(part.kind == "decision" for part in story) else set()
        best = max(best, len([names for names in wrong.truth if names & ids]))
    return "right" if best == len(wrong.truth) else "vague" if best else "wrong lead"


def names(*ids: str) -> tuple[frozenset[str], ...]:
    """A truth with one change for each word; "a|b": either id names it."""
    return tuple(frozenset(id.split("|")) for id in ids)


def decided(variants: Sequence[Variant], golden: Golden) -> Arrays | None:
    """Answers of the unit with variants of decisions; None if there is no such device."""
    unit = units.find(golden.manifest["unit"])
    device = other.device(unit, unit.config(golden.config), variants)
    if device is None:
        return None
    table = tables.whole(golden, answer_files.Answer(outputs(golden), {}))
    words, _ = unit_runs.words(table, [], device)
    arrays = outputs(golden)
    for name, array in arrays.items():
        array[table.rows] = words[name].reshape(-1, *array.shape[1:])
    return arrays


def changed(golden: Golden, port: str, change: Change, lane: int | None = None, base: Arrays | None = None) -> Arrays:
    """Answers in which the words of one output are changed, in one lane or all."""
    arrays = base or outputs(golden)
    name = f"out.{port}"
    described = sets.port_of(golden.array(name))
    flat = arrays[name].reshape(golden.rows, -1).copy()
    mask = flat.dtype.type(fields.mask_of(described.bits))
    lanes = slice(None) if lane is None else slice(lane, lane + 1)
    flat[:, lanes] = change(flat[:, lanes], described) & mask
    return {**arrays, name: flat.reshape(arrays[name].shape)}


def ports(name: str) -> Mapping[str, Port]:
    """Outputs of a committed set."""
    return {
        entry["name"].removeprefix("out."): sets.port_of(entry)
        for entry in golden(name).manifest["arrays"]
        if entry["role"] == "expected"
    }


def late(rows: int, golden: Golden) -> Arrays:
    """All answers some rows late, the first ones 0."""
    arrays = outputs(golden)
    for array in arrays.values():
        array[rows:] = array[:-rows].copy()
        array[:rows] = 0
    return arrays


def permuted(order: Sequence[int], golden: Golden, lanes: int) -> Arrays:
    """The lanes of all outputs with as many lanes in another order."""
    arrays = outputs(golden)
    return {
        name: np.ascontiguousarray(array[:, list(order)]) if array.ndim == 2 and array.shape[1] == lanes else array
        for name, array in arrays.items()
    }


def shuffled(share: float, golden: Golden) -> Arrays:
    """Answers with a share of their words, at least three, replaced by random ones."""
    arrays = outputs(golden)
    random = np.random.default_rng(golden.rows)
    for name, array in arrays.items():
        flat = array.reshape(-1)
        places = random.integers(0, flat.size, max(3, int(flat.size * share)))
        bits = min(63, sets.port_of(golden.array(name)).bits)
        flat[places] = random.integers(0, 1 << bits, len(places)).astype(flat.dtype)
    return arrays


def structural(name: str) -> Iterator[Wrong]:
    """Structural changes that the outputs of a set can have."""
    yield Wrong(name, "a row late", names("row_shift"), partial(late, 1))
    for port, described in ports(name).items():
        bits, lanes = described.bits, described.count
        of = partial(_changed, port)
        if bits > 2:
            yield Wrong(name, f"{port}: bit 1 stuck", names("bit_stuck|width"), partial(of, _stuck))
            yield Wrong(name, f"{port}: bit 0 inverted", names("bit_inverted|constant"), partial(of, _inverted))
            yield Wrong(name, f"{port}: bits 0 and 1 crossed", names("bit_swap"), partial(of, _crossed))
            yield Wrong(name, f"{port}: 3 added", names("constant"), partial(of, _added))
            yield Wrong(name, f"{port}: the upper half is cut off", names("width|bit_stuck"), partial(of, _narrow))
        if bits % 16 == 0:
            yield Wrong(name, f"{port}: bytes", names("byte_swap"), partial(of, _bytes))
        if bits % 8 == 0:
            yield Wrong(name, f"{port}: nibbles", names("nibble_swap"), partial(of, _nibbles))
        if fields.holds_floats(described):
            yield Wrong(name, f"{port}: sign", names("sign|bit_stuck|bit_inverted|width"), partial(of, _negated))
            yield Wrong(name, f"{port}: NaN has its lowest bit set", names("nan|constant"), partial(of, _payload))
            yield Wrong(name, f"{port}: infinity is finite", names("saturate|D-arith-2"), partial(of, _finite))
            yield Wrong(name, f"{port}: no subnormals", names("flush|D-arith-2"), partial(of, _flushed))
        elif bits > 3 and not described.signed:
            yield Wrong(name, f"{port}: stops at a third", names("saturate|bit_stuck|width"), partial(of, _third))
        if lanes > 1:
            last = lanes - 1
            yield Wrong(name, f"{port}: last lane dead", names("lane|bit_stuck|width"), partial(of, _dead, lane=last))
            if bits > 2:
                yield Wrong(
                    name, f"{port}: 1 added in lane 1", names("constant|bit_inverted"), partial(of, _one, lane=1)
                )
    for left, right in combinations(ports(name), 2):
        if (ports(name)[left].bits, ports(name)[left].count) == (ports(name)[right].bits, ports(name)[right].count):
            yield Wrong(name, f"{left} and {right} exchanged", names("port_swap"), partial(exchanged, left, right))
    for lanes in sorted({port.count for port in ports(name).values()} - {1}):
        order = list(range(lanes))[::-1]
        yield Wrong(name, f"{lanes} lanes reversed", names("lane_permutation"), partial(permuted, order, lanes=lanes))


def arithmetic(name: str) -> Iterator[Wrong]:
    """A device for each changed primitive of arithmetic that the unit uses."""
    right = tables.whole(golden(name), answer_files.Answer(outputs(golden(name)), {}))
    for guess in library.computed(right):
        yield Wrong(name, guess.says, names(f"{guess.name}|D"), partial(computed, guess))


def computed(guess: Fault, golden: Golden) -> Arrays:
    """Answers of the readable unit with other arithmetic."""
    table = tables.whole(golden, answer_files.Answer(outputs(golden), {}))
    device = unit_runs.device(table, [guess])
    assert device is not None
    words, _ = unit_runs.words(table, [guess], device)
    arrays = outputs(golden)
    for name, array in arrays.items():
        array[table.rows] = words[name].reshape(-1, *array.shape[1:])
    return arrays


def exchanged(left: str, right: str, golden: Golden) -> Arrays:
    """Two outputs exchanged."""
    arrays = outputs(golden)
    return {**arrays, f"out.{left}": arrays[f"out.{right}"], f"out.{right}": arrays[f"out.{left}"]}


def _changed(port: str, change: Change, golden: Golden, lane: int | None = None) -> Arrays:
    return changed(golden, port, change, lane)


def _stuck(codes: np.ndarray, port: Port) -> Any:
    return codes & ~codes.dtype.type(2)


def _inverted(codes: np.ndarray, port: Port) -> Any:
    return codes ^ codes.dtype.type(1)


def _crossed(codes: np.ndarray, port: Port) -> Any:
    one = codes.dtype.type(1)
    return codes & ~codes.dtype.type(3) | (codes & one) << one | codes >> one & one


def _added(codes: np.ndarray, port: Port) -> Any:
    return codes + codes.dtype.type(3)


def _one(codes: np.ndarray, port: Port) -> Any:
    return codes + codes.dtype.type(1)


def _bytes(codes: np.ndarray, port: Port) -> Any:
    return codes.byteswap()


def _negated(codes: np.ndarray, port: Port) -> Any:
    return codes ^ codes.dtype.type(1 << (port.bits - 1))


def _narrow(codes: np.ndarray, port: Port) -> Any:
    return codes & codes.dtype.type(fields.mask_of(port.bits // 2))


def _nibbles(codes: np.ndarray, port: Port) -> Any:
    low = codes.dtype.type(int("0F" * (port.bits // 8), 16))
    return (codes & low) << codes.dtype.type(4) | codes >> codes.dtype.type(4) & low


def _payload(codes: np.ndarray, port: Port) -> Any:
    return np.where(fields.is_nan(codes, port), codes | codes.dtype.type(1), codes)


def _magnitude(codes: np.ndarray, port: Port) -> Any:
    return codes & codes.dtype.type(fields.mask_of(port.bits - 1))


def _finite(codes: np.ndarray, port: Port) -> Any:
    infinite = _magnitude(codes, port) == {16: 0x7C00, 32: 0x7F800000}[port.bits]
    return np.where(infinite, codes - codes.dtype.type(1), codes)


def _flushed(codes: np.ndarray, port: Port) -> Any:
    small = _magnitude(codes, port) < {16: 0x0400, 32: 0x00800000}[port.bits]
    return np.where(small, codes & codes.dtype.type(1 << (port.bits - 1)), codes)


def _third(codes: np.ndarray, port: Port) -> Any:
    return np.minimum(codes, codes.max() // 3)


def _dead(codes: np.ndarray, port: Port) -> Any:
    return np.zeros_like(codes)


def decisions(name: str) -> Iterator[Wrong]:
    """A device for each variant of the unit."""
    for variant in units.find(golden(name).manifest["unit"]).variants:
        says = f"{variant.decision}: {variant.says}"
        yield Wrong(name, says, names(variant.decision), partial(decided, [variant]))


def corrupted(name: str) -> Iterator[Wrong]:
    """Random words, which must get no explanation."""
    for share in (0.0, 0.02, 0.3):
        yield Wrong(name, f"{share:.0%} of the words are random", (), partial(shuffled, share))
