"""Comparison of bits: the first difference in hex, in bits and decoded; and a design against a unit of refemu."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu import units
from refemu.arith.checks import Refused, RefusedType, first_index, host, lookup
from refemu.arith.tensors import NARROW, Host, widened
from refemu.formats import Element, Ovp
from refemu.golden.compare import decode, distance, waivers
from refemu.golden.files import fields, masks
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit


@dataclass(frozen=True, eq=False)
class Failure:
    """A failed comparison, with all that is needed to save it."""

    unit: AnyUnit
    config: str
    inputs: Mapping[str, np.ndarray]
    answers: Mapping[str, np.ndarray]  #: bit patterns by output port
    any_nan: bool = False  #: whether NaNs count as equal


last: Failure | None = None  #: latest failure of `hold`; after a failed test the smallest that hypothesis found
tried: list[
    Failure
] = []  #: latest comparisons of `hold` in this test, of at most `ROOM` values: evidence for explanations
ROOM = 4096  #: values


def assert_bits_equal(actual: object, expected: object, fmt: Element | Ovp | None = None) -> None:
    """Assert that both have the same dtype, shape and bits.

    Parameters
    ----------
    actual, expected : array_like, tensors of PyTorch and of libraries with DLPack, or tensors of one format
        Integers, bools or floats, bfloat16 and float8 too; of a tensor of a format the fields are compared.
    fmt : Element or Ovp, optional
        Format whose `describe` explains a code.

    Raises
    ------
    AssertionError
        They differ; the message counts the different elements, measures them in ulps, says where they are, and shows
        the first in hex, in bits and decoded.
    RefusedType
        A tensor cannot be copied from its device, is not contiguous or has no axis; or the dtype is not one of those.
    """
    __tracebackhide__ = True
    if hasattr(expected, "fields") and hasattr(actual, "fields"):
        same = type(actual) is type(expected)
        _require(same, f"got a {type(actual).__name__}, want a {type(expected).__name__}")
        fields = actual.fields()
        for name, field in expected.fields().items():
            _compare(Host.of(fields[name].array), Host.of(field.array), f"{type(expected).__name__}.{name}", fmt)
        return
    _compare(host(actual, "actual"), host(expected, "expected"), "array", fmt)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _compare(actual: Host, expected: Host, thing: str, fmt: Element | Ovp | None) -> None:
    _require(actual.dtype == expected.dtype, f"{thing}: dtype is {actual.dtype}, want {expected.dtype}")
    shapes = actual.array.shape, expected.array.shape
    _require(shapes[0] == shapes[1], f"{thing}: shape is {shapes[0]}, want {shapes[1]}")
    if actual.array.dtype.kind not in "biuf" or actual.array.itemsize > 8:
        raise RefusedType(f"{thing}: integers, bools or floats of at most 64 bits are needed, got dtype {actual.dtype}")
    mine, theirs = _bits(actual.array), _bits(expected.array)
    if np.array_equal(_words(mine), _words(theirs)):
        return
    wrong = mine != theirs
    index = first_index(wrong)
    texts = [_shown(codes[index], actual.dtype, fmt) for codes in (mine, theirs)]
    kind = actual.dtype if distance.is_float(actual.dtype) else ""
    far = distance.of(mine, theirs, wrong, kind) if kind else distance.of(actual.array, expected.array, wrong, "")
    raise AssertionError(f"{thing}: {far.text}; [{', '.join(map(str, index))}] got {texts[0]}  want {texts[1]}")


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _words(codes: np.ndarray) -> np.ndarray:
    """The same bytes in words of 8, if they fill them: fewer to compare."""
    flat = codes.reshape(-1)
    return flat.view(np.uint64) if flat.nbytes % 8 == 0 else flat


def _shown(code: np.unsignedinteger[Any], dtype: str, fmt: Element | Ovp | None) -> str:
    encoding = {"float16": "f16", "float32": "f32"}.get(dtype, "")
    shown = decode.value(int(code), Port("element", 8 * code.dtype.itemsize, encoding=encoding))
    described = shown.decoded
    if dtype in NARROW:
        described = str(widened(np.array([code]), dtype)[0])
    elif dtype == "float64":
        described = str(code.view(np.float64))
    if fmt is not None:
        try:
            described = fmt.describe(int(code))
        except (Refused, RefusedType) as refusal:
            described = str(refusal)
    return f"{shown.hex} = {shown.bits} ({described})"


def hold(
    unit: str | AnyUnit,
    config: str | None,
    inputs: Mapping[str, Any],
    *,
    any_nan: bool = False,
    waive: Sequence[str] = (),
    **answers: object,
) -> None:
    """Assert that `answers` equal the outputs of a unit in every bit that a device must produce.

    Works in any test, script or notebook; hypothesis is not needed. `pytest --refemu-save DIR` saves the (shrunk)
    stimulus of a failed test as a golden set.

    Parameters
    ----------
    unit : str or Unit
        Unit.
    config : str or None
        One of the unit's ready configurations; None for its first.
    inputs : mapping of str to array_like
        Stimulus by input port, as `refemu.testing.inputs` draws it, or as tensors.
    any_nan : bool
        Accept any NaN for any NaN in integer words too; in arrays of floats that is always so.
    waive : sequence of str
        What to leave uncompared. A flag of the unit excludes its rows; a decision, the bits that its variants change.
    **answers : array_like or tensor
        Outputs of your design by port, arrays or tensors: integers, or fp16 and fp32 at ports of floats. Bytes or
        int32 words that hold the lanes of a port, and int16 patterns, are viewed as the port's words. At least one;
        ports left out are not compared.

    Raises
    ------
    AssertionError
        An answer differs; the message shows the first difference and its stimulus, and for each port how many elements
        differ, by how many ulps, and where.
    Refused
        No output is given, or a name is unknown.
    """
    __tracebackhide__ = True
    global last
    target, name = units.choose(unit, config) if isinstance(unit, str) else (unit, config or next(iter(unit.configs)))
    parameters = target.config(name)
    ports = {port.name: port for port in target.ports(parameters).outputs}
    if not answers:
        raise Refused(f"hold: at least one output is needed, of {', '.join(ports)}")
    for port in answers:
        lookup(f"output of {target.name}", port, ports)
    entries = {port.name: port for port in target.ports(parameters).inputs}
    arrays = {
        name: fields.lanes_of(each, entries[name], f"{target.name}.{name}") if name in entries else np.asarray(each)
        for name, each in inputs.items()
    }
    lanes = {name: fields.lanes_of(each, ports[name], f"{target.name}.{name}") for name, each in answers.items()}
    result = target.evaluate(parameters, arrays, jit=False)
    want = {port: fields.encode(getattr(result, port), ports[port], target.name) for port in answers}
    got = {port: _given(lanes[port], ports[port], want[port], target.name) for port in answers}
    care = masks.of_result(target, parameters, arrays, result)
    waived = waivers.of_result(target, parameters, arrays, result, waive) if waive else {}
    loose = [
        port for port in answers if fields.holds_floats(ports[port]) and (any_nan or lanes[port].dtype.kind == "f")
    ]
    attempt = Failure(target, name, arrays, got, any_nan)
    _keep(attempt)
    wrong = {}
    for port, codes in want.items():
        bits = masks.differing(codes, got[port], ports[port], care.get(f"out.{port}"), any_nan=port in loose)
        unlike = (bits & ~waived[port] if waived else bits) != 0
        if unlike.any():
            wrong[port] = unlike
    if wrong:
        last = attempt
        first = next(iter(wrong))
        far = [
            f"; {port}: {distance.of_port(got[port], want[port], unlike, ports[port]).text}"
            for port, unlike in wrong.items()
        ]
        raise AssertionError(
            _sentence(target, name, ports[first], arrays, got[first], want[first], wrong[first])
            + "".join(far)
            + masks.remark(loose)
            + waivers.remark_of_result(waive, ports, care, {port: waived[port] for port in want if waived})
        )


def _keep(attempt: Failure) -> None:
    """Remember a comparison; drop the earliest beyond `ROOM` values."""
    tried.append(attempt)
    held = 0
    for at, each in reversed(list(enumerate(tried))):
        held += len(next(iter(each.answers.values())).reshape(-1))
        if held > ROOM and at < len(tried) - 1:
            del tried[: at + 1]
            return


def _given(values: np.ndarray, port: Port, want: np.ndarray, unit: str) -> np.ndarray:
    codes = fields.encode(values, port, f"{unit}.{port.name}")
    _require(codes.shape == want.shape, f"{unit}.{port.name}: shape is {codes.shape}, want {want.shape}")
    return codes


def _sentence(
    unit: AnyUnit,
    config: str,
    port: Port,
    arrays: Mapping[str, np.ndarray],
    got: np.ndarray,
    want: np.ndarray,
    unlike: np.ndarray,
) -> str:
    index = tuple(int(i) for i in np.argwhere(unlike)[0])
    rows = index[:-1] if port.count > 1 else index
    row = rows[0] if rows else 0
    values = [decode.value(int(array[index]), port) for array in (got, want)]
    lane = f"[{index[-1]}]" if port.count > 1 else ""
    stimulus = ", ".join(
        f"{name}={array[row].tolist() if array.ndim and rows else array}" for name, array in arrays.items()
    )
    return (
        f"{unit.name}-{config}: row {row}, {port.name}{lane}: "
        f"got {values[0].hex} = {values[0].bits} ({values[0].decoded})  "
        f"want {values[1].hex} = {values[1].bits} ({values[1].decoded})  for {stimulus}"
    )
