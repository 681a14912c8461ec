"""Explanations as a few lines of text each."""

from collections.abc import Iterator, Mapping, Sequence

from refemu.golden.explain.diagnosis import Diagnosis, Explanation
from refemu.golden.explain.histograms import Where

MOST = 4  #: most places in a line


def lines(diagnosis: Diagnosis, where: Where, rows: int, wrong: int) -> Iterator[str]:
    """The diagnosis, then a line for each explanation, or the places of differences. rows, wrong: of the set."""
    if diagnosis.refusal:
        yield f"diagnosis: none, since the stimulus of the set is invalid for the unit: {diagnosis.refusal}"
        yield from _where(where, rows)
        return
    searched = f"{diagnosis.hypotheses} hypotheses on {diagnosis.rows} rows"
    if not diagnosis.stories:
        yield f"diagnosis: no explanation among {searched}"
        if diagnosis.possible:
            yield f"  too few rows differ to choose; {len(diagnosis.possible)} hypotheses fit:"
            yield from (f"  - {guess}" for guess in diagnosis.possible[:MOST])
        yield from _where(where, rows)
        return
    best = diagnosis.stories[0]
    share = "every wrong row" if best[0].rows_explained == wrong else f"{best[0].rows_explained} of {wrong} wrong rows"
    names = " and ".join(part.id for part in best)
    beyond = "" if diagnosis.verified == rows else f", verified on {diagnosis.verified} of {rows} rows"
    ports = next((part.ports for part in best if part.ports), ())
    alone = f"in {_listed(ports)} alone, " if ports else ""
    yield f"diagnosis: {alone}{names} explains {share} ({searched}{beyond})"
    for number, story in enumerate(diagnosis.stories, 1):
        yield f"  {number}. {_story(story, wrong)}"
    if best[0].rows_explained < wrong:
        yield from _where(where, rows)


def _story(story: Sequence[Explanation], wrong: int) -> str:
    first = story[0]
    says = " and ".join(
        _titled(part).removeprefix("right if ") if place else _titled(part) for place, part in enumerate(story)
    )
    lanes = " and ".join(f"{part.id} in {_lanes(part.lanes)} only" for part in story if part.lanes)
    counts = f"explains {first.rows_explained} of {wrong} wrong rows; {first.rows_distinguishing} rows show it"
    refused = f"; {first.refused_rows} rows are invalid for it" if first.refused_rows else ""
    same = sorted({id for part in story for id in part.equivalent})
    apart = f"; no row distinguishes it from {', '.join(same)}" if same else ""
    return f"{_alone(story)}{says}{f' ({lanes})' if lanes else ''}: {counts}{refused}{apart}"


def _titled(part: Explanation) -> str:
    """What a part says, with the title of its decision."""
    return part.detail.replace(f"{part.id}: ", f"{part.id}, {part.title}: ", 1) if part.title else part.detail


def _alone(story: Sequence[Explanation]) -> str:
    """Ports to which a story is limited, and those that show that it is."""
    limited = next((part for part in story if part.ports), None)
    if limited is None:
        return ""
    agree = f"{_listed(limited.agreeing)} agree{'s' * (len(limited.agreeing) == 1)}"
    what = "decision" if limited.kind == "decision" and limited.id.startswith("D-") else "unit"
    return f"in {_listed(limited.ports)} alone ({agree} with the unchanged {what}): "


def _listed(ports: Sequence[str]) -> str:
    return " and ".join(", ".join(ports).rsplit(", ", 1))


def _lanes(lanes: Sequence[int]) -> str:
    listed = ", ".join(map(str, lanes[:MOST])) + (", ..." if len(lanes) > MOST else "")
    return f"lane{'s' * (len(lanes) > 1)} {listed}"


def _where(where: Where, rows: int) -> Iterator[str]:
    """Places of the differences, if there are few."""
    for port, count in where.ports.items():
        parts = [f"{port}: {count} rows"]
        if len(where.lanes[port]) <= MOST and max(where.lanes[port]) > 0:
            parts.append(f"all in {_lanes(list(where.lanes[port]))}")
        if len(where.bits[port]) <= MOST:
            parts.append(f"all in bits {', '.join(map(str, where.bits[port]))}")
        yield f"  where: {', '.join(parts)}"
    yield f"  where: {_counts(where.kinds)}" + (f"; {_counts(where.flags, 'no flag')}" if where.flags else "")


def _counts(counts: Mapping[str, int], none: str = "") -> str:
    return ", ".join(f"{count} {name or none}" for name, count in counts.items())
