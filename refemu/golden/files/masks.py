"""Masks of the bits that count, and the one comparison of bits under a mask.

A mask is 0 or all ones of its port. A unit may leave single bits of a port open; `partial_care` says which and why.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, RefusedType, at, first_index, lookup
from refemu.golden.files import fields
from refemu.units.ports import Port
from refemu.units.unit import AnyUnit, Config


def of_result(unit: AnyUnit, config: Config, inputs: Mapping[str, np.ndarray], result: Any) -> dict[str, np.ndarray]:
    """Masks of `unit` for a Result: array name -> bit patterns in the shape of that array in the Result.

    Refused: a mask of an unknown output, of another shape, or a partial one without a reason.
    """
    if unit.care is None:
        return {}
    ports = unit.ports(config)
    known = {
        f"{prefix}.{port.name}": port
        for prefix, group in (("out", ports.outputs), ("st", ports.state))
        for port in group
    }
    masks = {}
    for name, mask in unit.care(config, inputs, result).items():
        port, thing = lookup(f"masked array of {unit.name}", name, known), f"{unit.name}: mask of {name}"
        shape = np.shape(getattr(result, port.name))
        if np.shape(mask) != shape:
            raise Refused(f"{thing}: shape must be {shape}, got {np.shape(mask)}")
        masks[name] = widened(mask, port, unit.partial_care.get(name, ""), thing)
    return masks


def widened(mask: Any, port: Port, partial: str, thing: str) -> np.ndarray:
    """A mask in the dtype of the port's bit patterns: True becomes all ones of the port, integers are unchanged.

    partial: why bits of one lane are left open one by one, "" if they never are. thing: what the messages start with.
    """
    array, dtype = np.asarray(mask), fields.dtype_of(port.bits)
    if array.dtype == np.bool_:
        return np.where(array, dtype.type(fields.mask_of(port.bits)), dtype.type(0))
    if array.dtype.kind not in "iu":
        raise RefusedType(f"{thing}: bools are needed, or integers of {port.bits} bits, got {array.dtype}")
    codes = fields.encode(array, Port(port.name, port.bits), thing)
    require_whole(codes, port.bits, partial, thing)
    return codes


def require_whole(mask: np.ndarray, bits: int, partial: str, thing: str) -> None:
    """Require masks of 0 or `bits` ones, unless `partial` is a reason."""
    some = (mask != 0) & (mask != mask.dtype.type(fields.mask_of(bits)))
    if some.any() and not partial:
        index = first_index(some)
        raise Refused(
            f"{thing}: must be 0 or all {bits} ones unless `partial_care` has a reason, "
            f"got {int(mask[index]):#x}{at(index)}"
        )


def differing(
    want: np.ndarray,
    got: np.ndarray,
    port: Port,
    mask: np.ndarray | None = None,
    unknown: np.ndarray | None = None,
    any_nan: bool = False,
) -> np.ndarray:
    """The bits that count in which `got` differs from `want`: bit patterns in their shape, 0 if equal.

    mask: bits that count, by default all. unknown: bits of `got` that are x or z, which always differ. any_nan:
    whether NaNs count as equal at a port of floats (D-arith-1).
    """
    if any_nan:
        want, got = fields.canonical(want, port), fields.canonical(got, port)
    wrong = want ^ got
    if unknown is not None:
        wrong = wrong | unknown
    return wrong if mask is None else wrong & mask


def remark(names: Iterable[str]) -> str:
    """The end of a result line if NaNs counted as equal in these arrays or ports, else ""."""
    listed = ", ".join(names)
    return f"; NaNs count as equal in {listed}" if listed else ""
