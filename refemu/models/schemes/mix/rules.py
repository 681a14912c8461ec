"""The rules of a mix. An error names the part, the rule and the position of the part."""

from collections.abc import Iterator, Sequence
from typing import Any

from refemu.arith.checks import Refused
from refemu.models.schemes import scheme_text
from refemu.models.schemes.scheme import Half


def check(parts: Sequence[Any], places: Sequence[str]) -> None:
    """Raise Refused for parts that do not form a mix. places: of the parts, for error messages."""
    if len(parts) < 2:
        raise Refused(f"mix: must have linear parts and then an attention, got {len(parts)} part")
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
    """Require that the scheme has that half."""
    if half in scheme.halves:
        return
    reason = scheme.other_half or f"{type(scheme).__name__} has no {half} part"
    raise Refused(f"mix: {reason}; got {place}")


def _layers(parts: Sequence[Any], places: Sequence[str]) -> None:
    """Require an attention of all blocks, one linear part without `@`, and no block in two parts."""
    *linear, attention = parts
    if attention.layers is not None:
        raise Refused(f"mix: the last part computes attention for all blocks and must have no @, got {places[-1]}")
    without = [place for part, place in zip(linear, places, strict=False) if part.layers is None]
    if len(without) != 1:
        got = " and ".join(without or places[:-1])
        what = "several compute the linear layers of all blocks; name blocks after all but one, as in fp16@0-3"
        what = what if without else "none computes the linear layers of the other blocks; add one without blocks"
        raise Refused(f"mix: exactly one linear part must be without @, got {got}: {what} (docs/mixes.md)")
    taken: dict[int, str] = {}
    for part, place in zip(linear, places, strict=False):
        for block in part.layers or ():
            if block in taken:
                raise Refused(
                    f"mix: a block must have one linear part, got block {block} in {taken[block]} and in {place}"
                )
            taken[block] = place


def _stream(parts: Sequence[Any], places: Sequence[str]) -> None:
    """Require fp16 values for a part that encodes the residual stream."""
    residual = next(part.scheme.residual for part in parts[:-1] if part.layers is None)
    for part, place in zip(parts[:-1], places, strict=False):
        if residual != "fp16" and part.scheme.encodes_stream:
            raise Refused(f"mix: the part without @ must have residual=fp16 for {place}, got {residual}")


def _runs(linear: Sequence[Any], places: Sequence[str]) -> None:
    """Require one text for parts whose inputs are frozen as they arrive, since they calibrate in one run (D-mix-1)."""
    first: tuple[int, str] | None = None
    for part, place in zip(linear, places, strict=False):
        tokens = part.scheme.arriving_tokens
        if tokens is None:
            continue
        first = first or (tokens, place)
        if tokens != first[0]:
            rule = "parts that calibrate in one run must have equal calibration_tokens"
            raise Refused(f"mix: {rule}, got {first[0]} in {first[1]} and {tokens} in {place}")


def _idle(part: Any, half: Half) -> Iterator[str]:
    """Yield changed parameters that this part never reads."""
    scheme = part.scheme
    changed = scheme_text.differences(scheme_text.name(scheme), scheme)
    other: Half = "attention" if half == "linear" else "linear"
    for name in changed:
        if name in scheme.only.get(other, ()):
            yield f"{name} affects {other} parts only"
        if name in scheme.only.get("outer", ()) and (half == "attention" or part.layers is not None):
            yield f"{name} affects only the linear part without @"
