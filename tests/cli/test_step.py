"""`refemu step`: examples, conditions, tables, waveforms and errors."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from refemu import units
from refemu.cli import main


def test_decoder_example_of_paper(capsys: pytest.CaptureFixture[str]) -> None:
    """[olive §4.2]: 0101 with bias 2 is <4, 3> = 48."""
    assert main(["step", "outlier_decoder", "--input", "code=0b0101", "--input", "bias=2", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)["states"][-1]

    assert (state["exponent"], state["base_int"]) == (4, 3)


def test_break_stops_at_first_matching_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "step",
                "ovp_decoder",
                "--input",
                "pair=0x85,0x88,0xd5",
                "--input",
                "bias=2",
                "--break",
                "illegal == 1",
                "--json",
            ]
        )
        == 0
    )
    shown = json.loads(capsys.readouterr().out)

    assert shown["stopped"]
    assert [state["pair"] for state in shown["states"]] == [0x85, 0x88]


def test_table_names_ports_and_counters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", "ovp_decoder", "--input", "pair=0x85", "--input", "bias=2"]) == 0
    text = capsys.readouterr().out

    assert all(word in text for word in ("exponent", "base_int", "illegal", "outliers", "olive"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["ovp_decoder", "--config", "int8_repo"], "give --case DIR:ID, or --input", id="no paper case"),
        pytest.param(["ovp_decoder", "--input", "pair=1"], "also needs --input bias", id="port missing"),
        pytest.param(["ovp_decoder", "--input", "pear=1"], "did you mean 'pair'", id="unknown port"),
        pytest.param(["ovp_decoder", "--input", "pair=x"], "takes integers", id="no number"),
        pytest.param(["ovp_decoder", "--input", "pair=256", "--input", "bias=0"], "256", id="out of the port"),
        pytest.param(["ovp_decoder", "--input", "pair=1,2", "--input", "bias=0,1,2"], "events", id="lengths differ"),
        pytest.param(
            ["ovp_decoder", "--input", "pair=1", "--input", "bias=0", "--break", "illegl"],
            "did you mean 'illegal'",
            id="unknown register",
        ),
        pytest.param(
            ["ovp_decoder", "--input", "pair=1", "--input", "bias=0", "--break", "__import__('os')"],
            "may compare",
            id="code",
        ),
        pytest.param(["ovp_decoder", "--config", "int5", "--input", "pair=1"], "did you mean", id="unknown config"),
        pytest.param(["ovp_decoder", "--case", "x"], "DIR:ID", id="bad case"),
        pytest.param(["ovp_decoder", "--case", "x:\u00b2"], "DIR:ID", id="digits of another script"),
        pytest.param(["ovp_decoder", "--case", f"x:{'9' * 5000}"], "DIR:ID", id="very long row"),
        pytest.param(["ovp_decoder", "--input", f"pair=0x{'f' * 5000}"], "takes integers", id="very long number"),
        pytest.param(["ovp_decoder", "--case", "x:0", "--config", "int8"], "leave out --config", id="case and config"),
        pytest.param(["ovp_decoder", "--case", "x:0", "--input", "pair=1"], "leave out --config", id="case and input"),
        pytest.param(["ovp_decoder", "--input", "pair=1", "--input", "pair=2"], "is given twice", id="port twice"),
        pytest.param(["ovp_decoder", "--input", f"pair={1 << 70}"], "takes values from 0 to 255", id="beyond int64"),
        pytest.param(["ovp_decoder", "--input", "pair=0x185"], "from 0 to 255, got 0x185\n", id="hex beyond the port"),
        pytest.param(["ovp_decoder", "--break", "illegal = 1"], "as in 'illegal == 1'", id="assignment"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("condition", ["exponent > 3", "exponent[9] == 1", "illegal[0]", "pair - 'a'", "1 << -1"])
def test_condition_that_fails_is_rejected(condition: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", "ovp_decoder", "--input", "pair=1", "--input", "bias=0", "--break", condition]) == 2
    assert "fails at event 0" in capsys.readouterr().err


@pytest.mark.parametrize("name", units.names())
def test_every_unit_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", name, "--break", "index == 0"]) == 0
    text = capsys.readouterr().out

    assert " ".join(text[:80].split()).startswith("no --case or --input, so this is an example of the paper:")
    assert f"\n{name} [" in text


@pytest.mark.long
@pytest.mark.parametrize("name", units.names())
def test_every_line_fits_the_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (60, 80, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        for full in ([], ["--full"]):
            with contextlib.redirect_stdout(io.StringIO()) as text:
                assert main(["step", name, *full]) == 0
            assert max(map(len, text.getvalue().splitlines())) <= columns


def test_without_a_terminal_lines_have_100_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["step", "paged_attention"]) == 0

    assert 90 < max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_output_in_docs_is_true(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/step-through.md").read_text()
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["step", "free_page_list"]) == 0

    assert f"```\nrefemu step free_page_list\n{capsys.readouterr().out}```\n" in page


def test_combinational_unit_shows_intermediate_values(capsys: pytest.CaptureFixture[str]) -> None:
    """[kllm Table I] 2 * -0.375 + 0.5"""
    assert main(["step", "fp16_mac", "--input", "a=0x4000", "--input", "b=0xb600", "--input", "acc=0x3800"]) == 0

    assert capsys.readouterr().out.splitlines()[1:] == [
        "0 mac",
        "inputs   a         0x4000=2",
        "         b         0xb600=-0.375",
        "         acc       0x3800=0.5",
        "outputs  y         0xb400=-0.25",
        "         overflow  0",
        "state    product   0xba00=-0.75",
        "counts   macs 1  overflows 0",
    ]


def test_too_wide_drawings_are_omitted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["step", "bfp_pe_array"]) == 0

    assert "the drawings need 171 columns, this terminal has 80" in capsys.readouterr().out


def test_vcd_is_written_with_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wave = tmp_path / "wave.vcd"
    assert main(["step", "ovp_decoder", "--input", "pair=0x85,1", "--input", "bias=2", "--vcd", str(wave)]) == 0

    assert "$scope module ovp_decoder $end" in wave.read_text()
    assert (tmp_path / "wave.vcd.events").read_text() == "00 decode\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wave.vcd", "wave.vcd.events"]
    assert "exponent" in capsys.readouterr().out


def test_vcd_in_missing_folder_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wave = tmp_path / "absent" / "wave.vcd"
    assert main(["step", "ovp_decoder", "--input", "pair=1", "--input", "bias=2", "--vcd", str(wave)]) == 2
    assert f"{wave}: cannot be written: No such file" in capsys.readouterr().err


def test_drawing_follows_every_event(capsys: pytest.CaptureFixture[str]) -> None:
    """[kllm Fig. 7] both trees of Orizuru, as text."""
    words = "0x4200,0x4700,0x3C00,0x4500,0x4000,0x4600,0x4880,0x4400"
    assert main(["step", "orizuru", "--input", f"x={words}", "--break", "event == 'pop_max'"]) == 0

    drawings = re.split("\n#(?=[0-9])", capsys.readouterr().out)[1:]
    assert [drawing.split("\n")[0] for drawing in drawings] == [
        "0 load",
        "1 init_max",
        "2 init_max",
        "3 init_max",
        "4 init_min",
        "5 init_min",
        "6 init_min",
        "7 pop_max",
    ]
    assert " P    3     7     1     5     2     6    *[9]   4" in drawings[-1]


def test_registers_of_both_trees_are_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", "orizuru", "--input", "x=1,2,3,4,5,6,7,8", "--json"]) == 0
    last = json.loads(capsys.readouterr().out)["states"][-1]

    assert (last["p"], last["p_mask"]) == ([1, 1, 0, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 0, 0])
    assert (last["q"], last["q_mask"]) == ([0, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1, 1])
