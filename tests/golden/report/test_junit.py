"""JUnit XML for CI servers."""

from pathlib import Path
from xml.etree import ElementTree as ET

from refemu.golden.report import junit
from refemu.golden.report.regression import Regression, regression
from tests.golden.report.conftest import campaign

COUNTS = ("tests", "failures", "errors", "skipped")
#: by element: attributes, and children in the order of the schema of Jenkins
ALLOWED = {
    "testsuites": ({"name", *COUNTS}, ["testsuite"]),
    "testsuite": ({"name", *COUNTS}, ["properties", "testcase"]),
    "properties": (set(), ["property"]),
    "property": ({"name", "value"}, []),
    "testcase": ({"name", "classname"}, ["skipped", "error", "failure"]),
    "skipped": ({"message"}, []),
    "error": ({"message", "type"}, []),
    "failure": ({"message", "type"}, []),
}


def require_valid(element: ET.Element) -> None:
    """Require known attributes and children in order, and the counts of the testcases."""
    attributes, children = ALLOWED[element.tag]
    assert set(element.attrib) <= attributes, element.attrib
    places = [children.index(child.tag) for child in element]
    assert places == sorted(places)
    if "tests" in element.attrib:
        cases = list(element.iter("testcase"))
        tags = [len(list(element.iter(tag))) for tag in ("failure", "error", "skipped")]
        assert [int(element.attrib[name]) for name in COUNTS] == [len(cases), *tags]
    for child in element:
        require_valid(child)


def test_file_is_valid_with_right_counts(outcome: Regression) -> None:
    root = ET.fromstring(junit.text(outcome).encode())
    require_valid(root)
    assert {name: root.get(name) for name in COUNTS} == {"tests": "4", "failures": "3", "errors": "0", "skipped": "0"}
    (suite,) = [suite for suite in root if suite.get("name") == "olive_mac-wrap"]
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.text and "44 of 56 rows differ" in failure.attrib["message"]
    assert "diagnosis: row_shift" in failure.text and "refemu step olive_mac --case" in failure.text
    properties = {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}
    assert properties["grade.bits"] == "196/213" and properties["unit"] == "olive_mac"


def test_skipped_and_error_follow_the_result(run: Path) -> None:
    (run / "olive_mac-wrap" / "answers.npz").unlink()
    (run / "ovp_decoder-int4.answers.npz").write_bytes(b"PK")
    (run / "stray.log").write_text("FAIL 3 of 4 rows differ\x07\n")
    campaign(run / "c")
    (run / "c" / "outlier_decoder-e2m1" / "random-00000000" / "vectors.npz").unlink()
    root = ET.fromstring(junit.text(regression(run, "none")).encode())
    require_valid(root)
    outcomes = {suite.attrib["name"]: [each.tag for case in suite.iter("testcase") for each in case] for suite in root}

    assert outcomes["olive_mac-wrap"] == ["skipped"] and outcomes["ovp_decoder-int4"] == ["error"]
    (failure,) = [each for each in root.iter("failure") if "3 of 4" in str(each.text)]
    assert failure.text == failure.attrib["message"] == r"FAIL 3 of 4 rows differ\x07"
    assert outcomes["campaign c"] == ["error"] and outcomes["logs of missing sets"] == ["failure"]


def test_text_and_control_characters_are_escaped(outcome: Regression) -> None:
    text = junit.text(outcome)
    commands = [each.attrib["value"] for each in ET.fromstring(text.encode()).iter("property")]

    assert any("test_<script>alert(" in each and r"&\x1b[31m\x00" in each for each in commands)
    assert "<script>" not in text
    assert junit.clean("a\tb\nc\x0b\ud800\ufffe\U0001f600") == "a\tb\nc\\x0b\\ud800\\ufffe\U0001f600"
