"""A regression as JUnit XML: a testsuite per set, a testcase per answer, and one for every campaign.

A device that differs is a failure, an unreadable file is an error, and a set without answers is skipped.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from refemu.golden.report.campaigns import Campaign
from refemu.golden.report.regression import FAIL, MALFORMED, MISSING, PASS, Answer, Outcome, Regression, Reported

TAGS: dict[Outcome, str] = {FAIL: "failure", MALFORMED: "error", MISSING: "skipped"}
COUNTS = ("tests", "failures", "errors", "skipped")
#: characters that XML 1.0 excludes, even as references
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(regression: Regression) -> str:
    """The file."""
    root = ET.Element("testsuites", name=clean(f"refemu report {regression.folder}"))
    for suite in (*map(_suite, regression.sets), *_logs(regression.logs), *map(_campaign, regression.campaigns)):
        root.append(_counted(suite))
    _counted(root)
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def clean(text: str) -> str:
    r"""The text with characters that XML excludes escaped, as `\x1b`."""
    return _FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _counted(suite: ET.Element) -> ET.Element:
    cases = list(suite.iter("testcase"))
    suite.set("tests", str(len(cases)))
    for name, tag in zip(COUNTS[1:], ("failure", "error", "skipped"), strict=True):
        suite.set(name, str(len([case for case in cases if case.find(tag) is not None])))
    return suite


def _suite(each: Reported) -> ET.Element:
    suite = ET.Element("testsuite", name=clean(each.path))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(each):
        ET.SubElement(properties, "property", name=clean(name), value=clean(value))
    for answer in each.answers:
        _case(suite, each.name, answer)
    if not each.answers:
        _outcome(_testcase(suite, each.name, "answers"), each.outcome, each.reason, "")
    return suite


def _properties(each: Reported) -> Iterator[tuple[str, str]]:
    yield from (("set", each.name), ("kind", each.kind), ("rows", str(each.rows)))
    if each.sha256:
        yield from (("unit", each.unit), ("config", each.config), ("sha256", each.sha256), ("seed", str(each.seed)))
    if each.coverage:
        seen, bits = each.coverage.share
        yield "toggle", f"{seen}/{bits}"
        graded = each.coverage.grade.classes if each.coverage.grade else {}
        yield from ((f"grade.{klass}", f"{of.detected}/{of.detected + of.missed}") for klass, of in graded.items())
    yield from ((f"again.{number}", command.run) for number, command in enumerate(each.commands))


def _logs(logs: tuple[Answer, ...]) -> Iterator[ET.Element]:
    if logs:
        suite = ET.Element("testsuite", name="logs of missing sets")
        for log in logs:
            _case(suite, "log", log)
        yield suite


def _campaign(each: Campaign) -> ET.Element:
    suite = ET.Element("testsuite", name=clean(f"campaign {each.path}"))
    outcome: Outcome = PASS if each.whole else MALFORMED
    _outcome(_testcase(suite, "campaign", "every shard exists"), outcome, each.reason, "\n".join(each.missing))
    return suite


def _testcase(suite: ET.Element, of: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=clean(of), name=clean(name))


def _case(suite: ET.Element, of: str, answer: Answer) -> None:
    case = _testcase(suite, of, answer.path)
    again = [f"{command.run}  # {command.why}" for command in answer.commands]
    _outcome(case, answer.outcome, _message(answer), "\n".join([*answer.lines, *again]))


def _message(answer: Answer) -> str:
    if answer.reason or answer.difference is None:
        return answer.reason
    return f"{answer.rows_differ} of {answer.rows} rows differ"


def _outcome(case: ET.Element, outcome: Outcome, message: str, text: str) -> None:
    if outcome != PASS:
        element = ET.SubElement(case, TAGS[outcome], message=clean(message))
        if outcome != MISSING:
            element.set("type", outcome)
            element.text = clean(text or message)
