"""The rules of a mix. A refusal names the part, the rule, and where the part stands."""

from collections.abc import Iterator, Sequence
from typing import Any

from refemu.arith.checks import Refused
from refemu.models.schemes import scheme_text
from refemu.models.schemes.scheme import Half


def check(parts: Sequence[Any], places: Sequence[str]) -> None:
    """Refuse parts that do not make a mix. places: of the parts, as refusals name them."""
    if len(parts) < 2:
        raise Refused(f"mix: linear parts and then the attention are needed, got {len(parts)} part")
    halves: list[Half] = [*["linear"] * (len(parts) - 1), "attention"]  # type: ignore[list-item]
    for part, half, place in zip(parts, halves, places, strict=True):
        _computes(part.scheme, half, place)
    _layers(parts, places)
    _stream(parts, places)
    _runs(parts[:-1], places)
    for part, half, place in zip(parts, halves, places, strict=True):
        for rule in _idle(part, half):
            raise Refused(f"mix: {rule}, got {place}")


def _computes(scheme: Any, half: Half, place: str) -> None:
    """The scheme has that half."""
    if half in scheme.halves:
        return
    reason = scheme.other_half or f"{type(scheme).__name__} has no {half} part"
    raise Refused(f"mix: {reason}; got {place}")


def _layers(parts: Sequence[Any], places: Sequence[str]) -> None:
    """The attention is that of all blocks, one linear part has no layers of its own, and no block has two."""
    *linear, attention = parts
    if attention.layers is not None:
        raise Refused(f"mix: the last part computes the attention of all blocks and takes no @, got {places[-1]}")
    without = [place for part, place in zip(linear, places, strict=False) if part.layers is None]
    if len(without) != 1:
        got = " and ".join(without or places[:-1])
        raise Refused(f"mix: exactly one linear part must be without @, got {got}")
    taken: dict[int, str] = {}
    for part, place in zip(linear, places, strict=False):
        for block in part.layers or ():
            if block in taken:
                raise Refused(f"mix: a block has one linear part, got block {block} in {taken[block]} and in {place}")
            taken[block] = place


def _stream(parts: Sequence[Any], places: Sequence[str]) -> None:
    """A part that encodes the residual stream reads fp16 values."""
    residual = next(part.scheme.residual for part in parts[:-1] if part.layers is None)
    for part, place in zip(parts[:-1], places, strict=False):
        if residual != "fp16" and part.scheme.encodes_stream:
            raise Refused(f"mix: the part without @ has residual={residual}, and this one encodes fp16, got {place}")


def _runs(linear: Sequence[Any], places: Sequence[str]) -> None:
    """Parts whose inputs are frozen as they arrive see one run, of one text (D-mix-1)."""
    first: tuple[int, str] | None = None
    for part, place in zip(linear, places, strict=False):
        tokens = part.scheme.arriving_tokens
        if tokens is None:
            continue
        first = first or (tokens, place)
        if tokens != first[0]:
            rule = "parts that calibrate in one run need equal calibration_tokens"
            raise Refused(f"mix: {rule}, got {first[0]} in {first[1]} and {tokens} in {place}")


def _idle(part: Any, half: Half) -> Iterator[str]:
    """What changes a parameter that this part never reads."""
    scheme = part.scheme
    changed = scheme_text.differences(scheme_text.name(scheme), scheme)
    other: Half = "attention" if half == "linear" else "linear"
    for name in changed:
        if name in scheme.only.get(other, ()):
            yield f"{name} has an effect in {other} parts only"
        if name in scheme.only.get("outer", ()) and (half == "attention" or part.layers is not None):
            yield f"{name} has an effect in the linear part without @ only"
