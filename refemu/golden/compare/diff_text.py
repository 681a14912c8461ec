"""A difference as text and as JSON, for `refemu diff`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from refemu.golden.compare import waivers
from refemu.golden.compare.decode import Value
from refemu.golden.compare.diff import Difference, Mismatch
from refemu.golden.explain import diagnosis_text
from refemu.golden.files import masks

WIDE = 4  #: lanes of an input that are shown
SHOWN = 6  #: faults that are named


def document(difference: Difference) -> dict[str, Any]:
    """The JSON of `diff --json`: what was compared, where it differs, and with --explain what the device did."""
    plain = {
        field.name: getattr(difference, field.name)
        for field in dataclasses.fields(difference)
        if field.name not in ("first", "where", "distances", "diagnosis")
    }
    first = dataclasses.asdict(difference.first) if difference.first else None
    parts = {"equal": difference.equal, "remark": difference.remark, **plain, "first": first}
    parts |= {"wrong_rows": difference.rows_differ, "where": dataclasses.asdict(difference.where)}
    parts["distances"] = {name: dataclasses.asdict(each) for name, each in difference.distances.items()}
    diagnosis = difference.diagnosis
    searched = (
        {"hypotheses": diagnosis.hypotheses, "rows": diagnosis.rows, "verified": diagnosis.verified}
        if diagnosis
        else {}
    )
    return {**parts, "searched": searched, "explanations": [part.plain() for part in difference.explanations]}


def lines(difference: Difference, full: bool = False) -> list[str]:
    """Lines for a reader with a waveform open, the place first. full: every lane of the first wrong row."""
    first = difference.first
    rows = difference.rows - difference.rows_waived
    end = masks.remark(difference.any_nan)
    end += waivers.remark(difference.waived, difference.rows, rows, difference.bits_masked)
    start = _not_compared(difference)
    if first is None:
        equal = f"{difference.set}: {rows} rows equal in {', '.join(difference.compared)}{end}"
        return [*start, equal, *coverage(difference.waived, difference.detected, difference.undetected)]
    ports = ", ".join(f"{name} in {count}" for name, count in difference.ports.items())
    remark = f"; {difference.remark}" if difference.remark else ""
    text = [*start, *_place(difference.set, first, full)]
    text.append(f"{difference.rows_differ} of {difference.rows} rows differ: {ports}{remark}{end}")
    text += [f"  {name}: {each.text}" for name, each in difference.distances.items()]
    text += coverage(difference.waived, difference.detected, difference.undetected)
    if difference.diagnosis:
        text += diagnosis_text.lines(difference.diagnosis, difference.where, difference.rows, difference.rows_differ)
    return text


def _not_compared(difference: Difference) -> list[str]:
    """Arrays of the set that were not compared, by reason."""
    lacking = [name for name in difference.not_compared if name not in difference.excluded]
    reasons = (("missing from answers", lacking), ("excluded by --ports", difference.excluded))
    return [f"not compared ({why}): {', '.join(names)}" for why, names in reasons if names]


def coverage(words: Sequence[str], detected: int, undetected: Sequence[str]) -> list[str]:
    """Faults that the set detects under the waiver; [] without waivers."""
    if not words:
        return []
    lost = f"; no longer {', '.join(undetected[:SHOWN])}" if undetected else ""
    more = f" and {len(undetected) - SHOWN} more" if len(undetected) > SHOWN else ""
    return [f"coverage under the waiver: {detected - len(undetected)} of {detected} faults detected{lost}{more}"]


def _place(name: str, first: Mismatch, full: bool) -> list[str]:
    text = [
        f"{name}: row {first.row} of case {first.case}, {first.id} ({first.why})",
        *(f"  in  {port:12} {lanes_of(lanes, first, full)}" for port, lanes in first.stimulus.items()),
        f"  {first.array}, lane {first.lane}",
        f"  got  {value(first.got)}",
        f"  want {value(first.want)}",
    ]
    return [*text, f"  flags {' '.join(first.flags)}"] if first.flags else text


def lanes_of(lanes: Sequence[Value], first: Mismatch, full: bool = False) -> str:
    """The lanes of an input; of a wide one, the lane that differs or the first ones."""
    if full or len(lanes) <= WIDE:
        return "  ".join(map(value, lanes))
    if len(lanes) == first.lanes:
        return f"lane {first.lane} of {len(lanes)}: {value(lanes[first.lane])}"
    return f"{'  '.join(lane.hex for lane in lanes[:WIDE])}  ... {len(lanes)} lanes, --full shows them"


def value(of: Value) -> str:
    """A code as hex, as bits and decoded."""
    return f"{of.hex} = {of.bits} = {of.decoded}"
