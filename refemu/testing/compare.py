"""Bits against bits: the first difference in hex, in bits and decoded; and a design against a unit of refemu."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu import units
from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.golden import decode, fields, masks
from refemu.units.unit import Port, Unit


@dataclass(frozen=True, eq=False)
class Failure:
    """A design that was not equal, for whoever wants to keep it."""

    unit: Unit
    config: str
    inputs: Mapping[str, np.ndarray]
    answers: Mapping[str, np.ndarray]  #: bit patterns by output port
    any_nan: bool = False  #: whether any NaN was taken for any NaN


last: Failure | None = None  #: of `hold`: after a failed test the smallest that hypothesis found


def assert_bits_equal(got: Any, want: Any, fmt: Any = None) -> None:
    """Raise AssertionError unless both have the same dtype, shape and bits.

    got, want: arrays of integers, bools or floats, or tensors of one format, whose fields are compared. fmt: a format
    whose `describe` tells what a code means.
    """
    __tracebackhide__ = True
    if hasattr(want, "fields") and hasattr(got, "fields"):
        _require(type(got) is type(want), f"got a {type(got).__name__}, want a {type(want).__name__}")
        given = got.fields()
        for name, field in want.fields().items():
            _compare(np.asarray(given[name].array), np.asarray(field.array), f"{type(want).__name__}.{name}", fmt)
        return
    _compare(np.asarray(got), np.asarray(want), "array", fmt)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _compare(got: np.ndarray, want: np.ndarray, thing: str, fmt: Any) -> None:
    _require(got.dtype == want.dtype, f"{thing}: dtype is {got.dtype}, want {want.dtype}")
    _require(got.shape == want.shape, f"{thing}: shape is {got.shape}, want {want.shape}")
    mine, theirs = _bits(got), _bits(want)
    wrong = mine != theirs
    if not wrong.any():
        return
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    port = Port("element", 8 * got.dtype.itemsize, encoding={"f2": "f16", "f4": "f32"}.get(got.dtype.str[1:], ""))
    told = [_told(int(array[index]), port, fmt) for array in (mine, theirs)]
    count = int(np.count_nonzero(wrong))
    raise AssertionError(
        f"{thing}: {count} of {wrong.size} differ; [{', '.join(map(str, index))}] got {told[0]}  want {told[1]}"
    )


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _told(code: int, port: Port, fmt: Any) -> str:
    shown = decode.value(code, port)
    described = shown.decoded
    if fmt is not None:
        try:
            described = fmt.describe(code)
        except (Refused, RefusedType) as refusal:
            described = str(refusal)
    return f"{shown.hex} = {shown.bits} ({described})"


def hold(
    unit: str | Unit, config: str | None, inputs: Mapping[str, Any], *, any_nan: bool = False, **answers: Any
) -> None:
    """Raise AssertionError unless `answers` are what the unit gives for `inputs`, in every bit that a device must give.

    config: one of the unit's ready configurations, None for its first. inputs: as `refemu.testing.inputs` draws them.
    any_nan: whether any NaN is taken for any NaN also in words, which are compared bit by bit; in floats it always is.
    answers: by output port, integers or floats as the unit's Result has them; at least one, others are not compared.
    With `pytest --refemu-save DIR` the (shrunk) stimulus of a failed test is kept as a golden set.
    """
    __tracebackhide__ = True
    global last
    found = units.find(unit) if isinstance(unit, str) else unit
    name = config or next(iter(found.configs))
    parameters = lookup(f"configuration of {found.name}", name, found.configs)
    ports = {port.name: port for port in found.ports(parameters).outputs}
    if not answers:
        raise Refused(f"hold: give an answer for at least one of {', '.join(ports)}")
    for port in answers:
        lookup(f"output of {found.name}", port, ports)
    result = found.evaluate(found.configs[name], inputs, jit=False)
    want = {port: fields.encode(getattr(result, port), ports[port], found.name) for port in answers}
    got = {port: _given(answers[port], ports[port], want[port], found.name) for port in answers}
    care = masks.of_result(found, parameters, {port: np.asarray(array) for port, array in inputs.items()}, result)
    loose = [
        port
        for port in answers
        if fields.holds_floats(ports[port]) and (any_nan or np.asarray(answers[port]).dtype.kind == "f")
    ]
    for port, codes in want.items():
        unlike = masks.differing(codes, got[port], ports[port], care.get(f"out.{port}"), any_nan=port in loose) != 0
        if unlike.any():
            last = Failure(found, name, dict(inputs), got, any_nan)
            raise AssertionError(
                _sentence(found, name, ports[port], inputs, got[port], codes, unlike) + masks.remark(loose)
            )


def _given(values: Any, port: Port, want: np.ndarray, unit: str) -> np.ndarray:
    codes = fields.encode(values, port, f"{unit}.{port.name}")
    _require(codes.shape == want.shape, f"{unit}.{port.name}: shape is {codes.shape}, want {want.shape}")
    return codes


def _sentence(
    unit: Unit,
    config: str,
    port: Port,
    inputs: Mapping[str, Any],
    got: np.ndarray,
    want: np.ndarray,
    unlike: np.ndarray,
) -> str:
    index = tuple(int(i) for i in np.argwhere(unlike)[0])
    row = index[0] if index else 0
    told = [decode.value(int(array[index]), port) for array in (got, want)]
    lane = f"[{index[-1]}]" if port.lanes > 1 else ""
    stimulus = ", ".join(f"{name}={np.asarray(array)[row].tolist()}" for name, array in inputs.items())
    return (
        f"{unit.name}-{config}: row {row}, {port.name}{lane}: "
        f"got {told[0].hex} = {told[0].bits} ({told[0].decoded})  "
        f"want {told[1].hex} = {told[1].bits} ({told[1].decoded})  for {stimulus}"
    )
