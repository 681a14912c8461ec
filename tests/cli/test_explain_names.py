"""Schemes, formats, parameters, ports, fields and terms as a person and as a machine read them."""

import json

import pytest

from refemu.cli.main import main


def explained(word: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, object]]:
    """Text and JSON."""
    assert main(["explain", word]) == 0
    text = capsys.readouterr().out
    assert main(["explain", word, "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)


def test_a_parameter_of_a_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("harmonia-kv4.prefill_window", capsys)
    assert "bits of a prompt as each query sees them" in text
    assert "values   query, end" in text and "default  query" in text and "refemu explain D-harmonia-19" in text
    assert document["kind"] == "parameter"
    assert document["parameter"]["choices"] == ["query", "end"]  # type: ignore[index]
    assert document["decisions"] == [{"id": "D-harmonia-19", "title": "Bits during a prefill"}]


def test_a_name_of_a_parameter_and_a_register(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("orizuru.k", capsys)
    assert "Pops of each tree" in text and "in orizuru:n8  2" in text and "register: pops of each tree" in text
    assert {"parameter", "port"} <= set(document)


def test_a_port(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("ovp_decoder.pair", capsys)
    assert "input: " in text and "8 bits" in text
    assert document["port"]["bits"] == 8  # type: ignore[index]


def test_fields_of_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("orizuru.comparisons", capsys)
    assert text.startswith("orizuru.comparisons  counter: ") and "holds the sum of theirs" in text
    assert document["kind"] == "field" and document["field"]["total"] == "sum"  # type: ignore[index]
    assert "holds the largest of theirs" in explained("page_manager.step_pages", capsys)[0]
    text, document = explained("orizuru.event", capsys)
    assert "maintain" in text and "Result" not in text
    assert document["field"]["kind"] == "event"  # type: ignore[index]


def test_a_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("leankv", capsys)
    assert "[leankv §4, §5, §6]" in text and "bytes (D-leankv-14)" in text
    assert document["halves"] == ["attention"]


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = explained("OVP_INT4", capsys)
    assert "one outlier beside the identifier" in text and "refemu show OVP_INT4" in text
    text, document = explained("K8V4", capsys)
    assert "fp32, accumulated significance" in text
    assert document["fields"][0]["field"] == "key code"  # type: ignore[index]


def test_a_term(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = explained("ovp", capsys)
    assert text.startswith("outlier-victim pair (OVP, pair)\n") and "see: refemu explain OVP_INT4" in text
    assert document["kind"] == "term" and document["also"] == ["OVP", "pair"]
    assert "'outlier-victim pair'" in explained("victim", capsys)[0]


def test_the_nearest_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "harmonia-kv4.prefil_window"]) == 2
    assert "did you mean 'harmonia-kv4.prefill_window'?" in capsys.readouterr().err
