"""A regression as one HTML page: no script, no network access, light and dark, one column on a narrow screen."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from string import Template

from refemu import __version__
from refemu.golden.compare import diff_text
from refemu.golden.compare.diff import Difference, Mismatch
from refemu.golden.explain import diagnosis_text
from refemu.golden.faults.fault import FaultClass
from refemu.golden.grade.grade import Counts
from refemu.golden.report import junit
from refemu.golden.report.campaigns import Campaign
from refemu.golden.report.commands import Command
from refemu.golden.report.coverage import CLASSES, Coverage, uncompleted
from refemu.golden.report.regression import FAIL, MALFORMED, PASS, Answer, Outcome, Regression, Reported

WORDS: Mapping[Outcome, str] = {
    "pass": "pass",
    "fail": "FAIL",
    "not compared": "not compared",
    "malformed": "malformed",
}
#: columns whose names precede the cells on a narrow screen
LABELLED = ("rows", "rows that differ", "coverage", "bits seen 0 and 1", "first difference or reason")
HOLES = 20  #: missed faults of a set on the page; the JSON has all


def text(regression: Regression) -> str:
    """The file in UTF-8, the same from a disk as from a server."""
    template = resources.files("refemu.golden.report").joinpath("texts/page.html").read_text("utf-8")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in regression.counts.items() if count)
    noun = "set" if len(regression.sets) == 1 else "sets"
    classes = ", ".join(CLASSES[regression.grading]) or "none"
    page = Template(template).substitute(
        {
            "title": escape(f"Regression of {regression.folder}"),
            "class": _class(regression.outcome),
            "outcome": WORDS[regression.outcome],
            "counts": f"{len(regression.sets)} {noun}: {counts}",
            "about": f"refemu {escape(__version__)}, exit code {regression.code}, faults: {classes}",
            "body": "\n".join(_body(regression)),
        }
    )
    return junit.clean(page)


def _body(regression: Regression) -> Iterator[str]:
    if regression.campaigns:
        yield "<h2>Campaigns</h2>"
        yield from map(_campaign, regression.campaigns)
    yield "<h2>All sets</h2>"
    yield _overview(regression.sets)
    if regression.logs:
        yield "<h2>Logs of missing sets</h2>"
        yield from map(_answer, regression.logs)
    yield "<h2>Set by set</h2>"
    yield from (_set(number, each) for number, each in enumerate(regression.sets))


def _campaign(each: Campaign) -> str:
    if each.whole:
        return f"<p>{_outcome(PASS)} {escape(each.path)}: all {each.shards} shards exist</p>"
    missing = f"<details><summary>missing shards</summary>{_pre(each.missing)}</details>"
    line = f"<p>{_outcome('not compared')} {escape(each.path)}: {escape(each.reason)}</p>"
    return line + missing * bool(each.missing)


def _overview(sets: Sequence[Reported]) -> str:
    head = ("result", "set", "rows", "rows that differ", "coverage", "bits seen 0 and 1", "first difference or reason")
    rows = [_overview_row(number, each) for number, each in enumerate(sets)]
    return _table("", head, rows, ("rows", "rows that differ"), stack=True)


def _overview_row(number: int, each: Reported) -> list[str]:
    differ = [answer.rows_differ for answer in each.answers if answer.rows_differ is not None]
    covered = each.coverage
    return [
        _outcome(each.outcome),
        f'<a href="#set-{number}">{escape(each.path)}</a>',
        str(each.rows),
        str(max(differ, default="")),
        _grade(covered),
        f"{covered.share[0]} of {covered.share[1]}" if covered and covered.toggle else "",
        escape(_short(each)),
    ]


def _grade(covered: Coverage | None) -> str:
    """Coverage over all classes: detected among detected and missed faults."""
    if covered is None or covered.grade is None:
        return ""
    return "{} of {}".format(*covered.detected)


def _short(each: Reported) -> str:
    """The first difference, or the reason why there is none."""
    for answer in each.answers:
        if answer.difference and answer.difference.first:
            first = answer.difference.first
            return f"row {first.row}, {first.array}[{first.lane}]: got {first.got.hex}, want {first.want.hex}"
    return next((answer.reason for answer in each.answers if answer.reason), each.reason)


def _set(number: int, each: Reported) -> str:
    opened = " open" * (each.outcome in (FAIL, MALFORMED))
    head = f"{_outcome(each.outcome)} <strong>{escape(each.path)}</strong>"
    return f'<details id="set-{number}"{opened}><summary>{head}</summary>{"".join(_details(each))}</details>'


def _details(each: Reported) -> Iterator[str]:
    if each.reason:
        yield f"<p>{escape(each.reason)}</p>"
    if each.sha256:
        yield _facts(each)
    yield from map(_answer, each.answers)
    if each.commands:
        yield f"<h3>Regenerate the set</h3>{_commands(each.commands)}"
    if each.coverage:
        yield from _coverage(each.coverage)


def _facts(each: Reported) -> str:
    facts = {"set": each.name, "kind": each.kind, "unit": each.unit, "configuration": each.config}
    facts |= {"rows": str(each.rows), "seed": str(each.seed), "digest": each.sha256}
    facts |= {"campaign": each.campaign} if each.campaign else {}
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{escape(value)}</dd>' for name, value in facts.items())}</dl>"


def _answer(each: Answer) -> str:
    counts = f": {each.rows_differ} of {each.rows} rows differ" if each.rows_differ is not None else ""
    parts = [f"<h3>{_outcome(each.outcome)} {escape(each.path)}{counts}</h3>"]
    if each.reason:
        parts.append(f"<p>{escape(each.reason)}</p>")
    if each.difference and each.difference.first:
        parts.append(_difference(each.difference, each.difference.first))
    elif each.outcome != PASS and each.lines:
        parts.append(_pre(each.lines))
    elif each.difference:
        parts.append(f"<p>compared: {escape(', '.join(each.difference.compared))}</p>")
    if each.commands:
        parts.append(_commands(each.commands))
    return "".join(parts)


def _difference(difference: Difference, first: Mismatch) -> str:
    """The first difference decoded, then where rows differ, then the explanation."""
    about = f"first difference: row {first.row} of case {first.id} ({first.why})"
    if first.decision:
        about += f", decided by {first.decision}"
    if first.flags:
        about += f", flags {' '.join(first.flags)}"
    rows = [["in", port, escape(diff_text.lanes_of(lanes, first))] for port, lanes in first.stimulus.items()]
    place = f"{first.array}, lane {first.lane}"
    rows += [["got", place, escape(diff_text.value(first.got))], ["want", place, escape(diff_text.value(first.want))]]
    ports = ", ".join(f"{name} in {count}" for name, count in difference.ports.items())
    lines = [f"rows that differ: {ports}"]
    if difference.diagnosis:
        lines += diagnosis_text.lines(difference.diagnosis, difference.where, difference.rows, difference.rows_differ)
    table = _table("", ("", "port", "value"), rows, stack=True)
    return f'<div class="first"><p><strong>{escape(about)}</strong></p>{table}{_pre(lines)}</div>'


def _coverage(each: Coverage) -> Iterator[str]:
    if each.reason:
        yield f"<p>no coverage: {escape(each.reason)}</p>"
    yield "<details><summary>Coverage</summary>"
    seen = ("bits", "0", "1", "rising", "falling")
    rows = [[escape(name), *(str(counts[column]) for column in seen)] for name, counts in each.toggle.items()]
    if rows:
        yield _table("toggled bits", ("output or register", *seen), rows, seen)
    if each.grade:
        yield _graded(each.grade.classes)
        missed = [survivor.fault for survivor in each.grade.survivors if survivor.outcome == "missed"]
        if missed:
            more = [f"and {len(missed) - HOLES} more; the JSON has all"] * (len(missed) > HOLES)
            yield f"<p>faults that the set misses:</p>{_pre([*missed[:HOLES], *more])}"
    yield _counted("rows by kind of case", "kind", each.kinds)
    yield _counted("rows that complete an operation", "kind", each.completed)
    if missing := uncompleted(each.completed):
        yield f"<p>{escape(missing)}</p>"
    yield _counted("rows by flag", "flag", each.flags)
    yield _counted("rows of cases about a decision", "decision", each.decisions)
    if each.grade:
        yield _counted("rows that detect a variant of a decision", "decision", each.grade.decisions)
    yield "</details>"


def _graded(classes: Mapping[FaultClass, Counts]) -> str:
    numbers = ("faults", "detected", "missed", "equivalent", "undecided", "raised")
    head = ("faults", "detected", "missed", "equivalent", "undecided", "untested")
    rows = [[str(name), *(str(getattr(counts, column)) for column in numbers)] for name, counts in classes.items()]
    return _table("injected faults", ("class", *head), rows, head)


def _counted(title: str, what: str, counts: Mapping[str, int]) -> str:
    rows = [[escape(name), str(count)] for name, count in counts.items()]
    return _table(title, (what, "rows"), rows, ("rows",)) if rows else ""


def _commands(commands: Sequence[Command]) -> str:
    items = (f"<li>{escape(each.why)}:<br><code>{escape(each.run)}</code></li>" for each in commands)
    return f'<ul class="commands">{"".join(items)}</ul>'


def _table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = (), stack: bool = False
) -> str:
    """A table of HTML cells. numbers: right-aligned columns. stack: a line for each cell on a narrow screen."""
    kind = [' class="number"' if name in numbers else "" for name in head]
    cells = "".join(f'<th scope="col"{of}>{escape(name)}</th>' for name, of in zip(head, kind, strict=True))
    body = "".join(f"<tr>{_cells(head, row, kind, stack)}</tr>" for row in rows)
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    table = f"<table{' class=stack' * stack}>{caption}<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
    label = escape(title or "table")
    return f'<div class="wide" role="region" aria-label="{label}" tabindex="0">{table}</div>'


def _cells(head: Sequence[str], row: Sequence[str], kind: Sequence[str], stack: bool) -> str:
    names = [f' data-name="{escape(name)}"' if stack and name in LABELLED else "" for name in head]
    return "".join(f"<td{of}{name}>{cell}</td>" for cell, of, name in zip(row, kind, names, strict=True))


def _pre(lines: Sequence[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _outcome(outcome: Outcome) -> str:
    return f'<span class="result {_class(outcome)}">{WORDS[outcome]}</span>'


def _class(outcome: Outcome) -> str:
    return outcome.replace(" ", "-")
