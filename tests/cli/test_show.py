"""`refemu show`: code tables, single codes and pages."""

import json

import pytest

from refemu import formats
from refemu.cli import main
from tests.formats.names import PUBLIC


@pytest.mark.parametrize("name", formats.constants())
def test_every_format_has_a_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name]) == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["OVP_INT4", "0x885"], "refemu: OVP_INT4: a pair of two 4-bit codes is needed, 0x0 to 0xff, got 0x885\n"),
        (["INT4", "16"], "refemu: INT4: a code of 4 bits is needed, 0x0 to 0xf, got 16\n"),
    ],
)
def test_code_beyond_the_format_is_rejected_as_typed(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *words]) == 2
    assert capsys.readouterr().err == message


def test_code_of_paper_is_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "E2M1_BIAS2", "0b0101"]) == 0
    assert "48" in capsys.readouterr().out


def test_json_has_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "INT4", "--json"])

    assert len(json.loads(capsys.readouterr().out)["codes"]) == 15


@pytest.mark.parametrize("code", ["x", "16", "-1"])
def test_code_that_is_not_a_number_is_rejected(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "E2M1_BIAS2", "--", code]) == 2
    assert code in capsys.readouterr().err


def test_page_prints_its_byte_map(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "page", "K8V4", "--head", "128"]) == 0
    text = capsys.readouterr().out

    assert "32 tokens in 6784 bytes" in text and "6272" in text
    assert [word for word in text.split() if word in ("key", "key_meta", "val", "val_meta", "score", "pos")]


def test_page_as_json_and_byte_by_byte(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "page", "k4v2", "--head", "64", "--json"])
    page = json.loads(capsys.readouterr().out)
    main(["show", "page", "k4v2", "--head", "64", "--byte", "6143"])

    assert (page["tokens"], page["page_bytes"], page["segments"][0]["last"]) == (96, 6144, 3071)
    assert capsys.readouterr().out == "byte 6143: pos of slot 95, byte 3 of 4\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["K4V1", "--head", "64"], "16-bit words per value must be a multiple of Vgroup = 8, got 4"),
        ([], "give a precision pair: "),
        (["K8V5"], "unknown precision pair"),
        (["K8V4", "--byte", "6784"], "byte must be in"),
    ],
)
def test_invalid_page_is_rejected(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "page", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", formats.blocks())
def test_block_formats_show_their_fields(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert eval(shown["format"], PUBLIC) == formats.find(name)  # the text is ours
    assert [part["bits"] for part in shown["fields"]] == [part.bits for part in formats.structure(formats.find(name))]
    assert main(["show", name]) == 0
    assert name in capsys.readouterr().out
    assert main(["show", name, "5"]) == 2
    assert "no table of codes" in capsys.readouterr().err


def test_page_of_keys_of_two_bits(capsys: pytest.CaptureFixture[str]) -> None:
    """[leankv §6.2] K2V4 at head size 64 has a layout only if two threads share a key."""
    assert main(["show", "page", "K2V4", "--head", "64"]) == 2
    assert "Kgroup" in capsys.readouterr().err
    assert main(["show", "page", "K2V4", "--head", "64", "--k-group", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == 96
