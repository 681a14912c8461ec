"""Comparison of bits: the first difference in hex, in bits and decoded; and a design against a unit of refemu."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from refemu import units
from refemu.arith.checks import Refused, RefusedType, lookup
from refemu.formats import Element, Ovp
from refemu.golden.compare import decode, waivers
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


def assert_bits_equal(got: object, want: object, fmt: Element | Ovp | None = None) -> None:
    """Assert that both have the same dtype, shape and bits.

    Parameters
    ----------
    got, want : array_like, or tensors of one format
        Integers, bools or floats; of tensors the fields are compared.
    fmt : Element or Ovp, optional
        Format whose `describe` explains a code.

    Raises
    ------
    AssertionError
        They differ; the message shows the first difference in hex, in bits and decoded.
    """
    __tracebackhide__ = True
    if hasattr(want, "fields") and hasattr(got, "fields"):
        _require(type(got) is type(want), f"got a {type(got).__name__}, want a {type(want).__name__}")
        fields = got.fields()
        for name, field in want.fields().items():
            _compare(np.asarray(fields[name].array), np.asarray(field.array), f"{type(want).__name__}.{name}", fmt)
        return
    _compare(np.asarray(got), np.asarray(want), "array", fmt)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _compare(got: np.ndarray, want: np.ndarray, thing: str, fmt: Element | Ovp | None) -> None:
    _require(got.dtype == want.dtype, f"{thing}: dtype is {got.dtype}, want {want.dtype}")
    _require(got.shape == want.shape, f"{thing}: shape is {got.shape}, want {want.shape}")
    mine, theirs = _bits(got), _bits(want)
    wrong = mine != theirs
    if not wrong.any():
        return
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    port = Port("element", 8 * got.dtype.itemsize, encoding={"f2": "f16", "f4": "f32"}.get(got.dtype.str[1:], ""))
    texts = [_told(int(array[index]), port, fmt) for array in (mine, theirs)]
    count = int(np.count_nonzero(wrong))
    raise AssertionError(
        f"{thing}: {count} of {wrong.size} differ; [{', '.join(map(str, index))}] got {texts[0]}  want {texts[1]}"
    )


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _told(code: int, port: Port, fmt: Element | Ovp | None) -> str:
    shown = decode.value(code, port)
    described = shown.decoded
    if fmt is not None:
        try:
            described = fmt.describe(code)
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
    **answers: ArrayLike,
) -> None:
    """Assert that `answers` equal the outputs of a unit in every bit that a device must produce.

    `pytest --refemu-save DIR` saves the (shrunk) stimulus of a failed test as a golden set. Hypothesis fails a test
    whose example takes more than 200 ms, the golden model's time included: large units need
    `@settings(deadline=None)`.

    Parameters
    ----------
    unit : str or Unit
        Unit.
    config : str or None
        One of the unit's ready configurations; None for its first.
    inputs : mapping of str to array_like
        Stimulus by input port, as `refemu.testing.inputs` draws it.
    any_nan : bool
        Accept any NaN for any NaN in integer words too; in arrays of floats that is always so.
    waive : sequence of str
        What to leave uncompared. A flag of the unit excludes its rows; a decision, the bits that its variants change.
    **answers : array_like
        Outputs of your design by port, integers or floats as in the unit's Result. At least one; ports left out are
        not compared.

    Raises
    ------
    AssertionError
        An answer differs; the message shows the first difference and its stimulus.
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
    result = target.evaluate(parameters, inputs, jit=False)
    want = {port: fields.encode(getattr(result, port), ports[port], target.name) for port in answers}
    got = {port: _given(answers[port], ports[port], want[port], target.name) for port in answers}
    care = masks.of_result(target, parameters, {port: np.asarray(array) for port, array in inputs.items()}, result)
    arrays = {port: np.asarray(array) for port, array in inputs.items()}
    waived = waivers.of_result(target, parameters, arrays, result, waive) if waive else {}
    loose = [
        port
        for port in answers
        if fields.holds_floats(ports[port]) and (any_nan or np.asarray(answers[port]).dtype.kind == "f")
    ]
    attempt = Failure(target, name, dict(inputs), got, any_nan)
    _keep(attempt)
    for port, codes in want.items():
        bits = masks.differing(codes, got[port], ports[port], care.get(f"out.{port}"), any_nan=port in loose)
        unlike = (bits & ~waived[port] if waived else bits) != 0
        if unlike.any():
            last = attempt
            raise AssertionError(
                _sentence(target, name, ports[port], inputs, got[port], codes, unlike)
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


def _given(values: ArrayLike, port: Port, want: np.ndarray, unit: str) -> np.ndarray:
    codes = fields.encode(values, port, f"{unit}.{port.name}")
    _require(codes.shape == want.shape, f"{unit}.{port.name}: shape is {codes.shape}, want {want.shape}")
    return codes


def _sentence(
    unit: AnyUnit,
    config: str,
    port: Port,
    inputs: Mapping[str, Any],
    got: np.ndarray,
    want: np.ndarray,
    unlike: np.ndarray,
) -> str:
    index = tuple(int(i) for i in np.argwhere(unlike)[0])
    rows = index[:-1] if port.count > 1 else index
    row = rows[0] if rows else 0
    values = [decode.value(int(array[index]), port) for array in (got, want)]
    lane = f"[{index[-1]}]" if port.count > 1 else ""
    arrays = {name: np.asarray(array) for name, array in inputs.items()}
    stimulus = ", ".join(
        f"{name}={array[row].tolist() if array.ndim and rows else array}" for name, array in arrays.items()
    )
    return (
        f"{unit.name}-{config}: row {row}, {port.name}{lane}: "
        f"got {values[0].hex} = {values[0].bits} ({values[0].decoded})  "
        f"want {values[1].hex} = {values[1].bits} ({values[1].decoded})  for {stimulus}"
    )
