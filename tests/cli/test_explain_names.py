"""Entries of schemes, formats, parameters, ports, fields and terms, as text and as JSON."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from refemu import golden
from refemu.cli.main import main
from refemu.golden.pages import topics


def explained(word: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, object]]:
    """Text and JSON."""
    assert main(["explain", word]) == 0
    text = capsys.readouterr().out
    assert main(["explain", word, "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)


def test_parameter_of_scheme_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("harmonia-kv4.prefill_window", capsys)
    assert "bits of a prompt as each query sees them" in text
    assert "values   query, end" in text and "default  query" in text and "refemu explain D-harmonia-19" in text
    assert document["kind"] == "parameter"
    assert document["parameter"]["choices"] == ["query", "end"]  # type: ignore[index]
    assert document["decisions"] == [{"id": "D-harmonia-19", "title": "Bits during a prefill"}]


def test_name_of_parameter_and_register_explains_both(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("orizuru.k", capsys)
    assert "Pops of each tree" in text and "in orizuru:n8  2" in text and "register: pops of each tree" in text
    assert {"parameter", "port"} <= set(document)


def test_port_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("ovp_decoder.pair", capsys)
    assert "input: " in text and "8 bits" in text
    assert document["port"]["bits"] == 8  # type: ignore[index]


def test_fields_of_state_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("orizuru.comparisons", capsys)
    assert text.startswith("orizuru.comparisons  counter: ") and "a Result has the sum" in text
    assert document["kind"] == "field" and document["field"]["total"] == "sum"  # type: ignore[index]
    assert "a Result has the largest" in explained("page_manager.step_pages", capsys)[0]
    text, document = explained("orizuru.event", capsys)
    assert "maintain" in text and "Result" not in text
    assert document["field"]["kind"] == "event"  # type: ignore[index]


def test_scheme_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("leankv", capsys)
    assert "[leankv §4, §5, §6]" in text and "bytes (D-leankv-14)" in text
    assert document["halves"] == ["attention"]


def test_formats_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = explained("OVP_INT4", capsys)
    assert "one outlier next to the identifier" in text and "refemu show OVP_INT4" in text
    text, document = explained("K8V4", capsys)
    assert "fp32, accumulated significance" in text
    assert document["fields"][0]["field"] == "key code"  # type: ignore[index]


def test_term_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("ovp", capsys)
    assert text.startswith("outlier-victim pair (OVP, pair)\n") and "see: refemu explain OVP_INT4" in text
    assert document["kind"] == "term" and document["also"] == ["OVP", "pair"]
    assert "'outlier-victim pair'" in explained("victim", capsys)[0]


def test_unknown_word_suggests_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "harmonia-kv4.prefil_window"]) == 2
    assert "did you mean 'harmonia-kv4.prefill_window'?" in capsys.readouterr().err


#: words of headings that need no entry of the glossary
PLAIN = {
    *(
        "0",
        "1",
        "activation",
        "bit",
        "byte",
        "change",
        "class",
        "committed",
        "comparison",
        "conversion",
        "count",
        "default",
    ),
    *("definition", "detects", "differ", "differing", "direction", "easiest", "element", "falling", "field", "file"),
    *("halves", "hardest", "how", "in", "it", "kv", "layer", "licence", "meaning", "model", "name", "note", "of"),
    *(
        "operation",
        "or",
        "out",
        "output",
        "over",
        "paper",
        "parameter",
        "reason",
        "result",
        "rising",
        "scored",
        "shape",
    ),
    *("size", "source", "test", "that", "timing", "title", "token", "value", "weight", "win", "word"),
}


KNOWN = {each for word in topics.words() for name in word.split() for each in (name, f"{name}s")}


@pytest.mark.parametrize(
    "line",
    [
        "list",
        "generate -o more --unit ovp_decoder:int4 --kinds paper",
        "check vec",
        "grade vec/ovp_decoder-int4 --class bits",
        "explain orizuru",
        "explain D-olive-19",
        "cost --scheme olive-4 --tokens 2",
        "machine --scheme olive-4 --tokens 2",
        "ppl --model tiny --win 16 --windows 2",
        "study mix --model tiny --win 16 --windows 2 --prefill 8 --schemes fp16 olive-4",
        "report vec --grade none",
    ],
)
def test_headings_of_tables_are_plain_or_explained(
    line: str, sets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(sets)
    monkeypatch.setenv("REFEMU_HOME", str(sets / "home"))
    main(line.split())
    lines = capsys.readouterr().out.splitlines()
    headings = [head for head, rule in pairwise(lines) if rule.startswith("──")]

    assert headings
    words = {word for head in headings for word in re.findall("[^ ,%#]+", head)}
    assert {word for word in words if word.removesuffix("s") not in PLAIN and word not in PLAIN} <= KNOWN


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("sets")
    golden.generate(folder / "vec", units=["ovp_decoder:int4"], kinds=["paper"])
    return folder


OWN = """
from dataclasses import dataclass
from refemu import models
@dataclass(frozen=True)
class Asym(models.LinearScheme):
    bits: int = 3  #: bits of a weight
    group: int = 64  #: inputs that share a scale
WIDE = Asym(bits=8)
"""


@pytest.mark.parametrize("path", ["my_scheme.py", "folder/my_scheme.py"])
def test_scheme_of_a_file_is_explained(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path(path).write_text(OWN)
    assert main(["explain", f"{path}:Asym"]) == 0
    page = capsys.readouterr().out
    assert f"{path}:Asym  scheme of [your own]" in page and "inputs that share a scale" in page
    assert main(["explain", f"{path}:WIDE.bits"]) == 0
    assert (
        capsys.readouterr().out == f"{path}:WIDE.bits  parameter: bits of a weight\n\nvalues   an integer\ndefault  8\n"
    )
    assert main(["explain", f"{path}:Asym", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["parameters"]] == ["bits", "group"]
    assert main(["explain", f"{path}:Asim"]) == 2
    assert "did you mean 'Asym'?" in capsys.readouterr().err
    assert main(["explain", f"{path}:Asym.bit"]) == 2
    assert f"did you mean '{path}:Asym.bits'?" in capsys.readouterr().err
