"""Totals, shapes, traces and pictures from the command line."""

import json
from pathlib import Path

import pytest

from refemu.cli import main

SHAPE = ["cost", "--shape", "llama-7b", "--scheme", "kllm-a4", "--phase", "decode"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """JSON of a command."""
    assert main([*words, "--json"]) == 0
    plain: dict[str, object] = json.loads(capsys.readouterr().out)
    return plain


@pytest.mark.long
def test_total_is_printed_with_prices_and_bound(capsys: pytest.CaptureFixture[str]) -> None:
    total = printed(capsys, *SHAPE)["total"]
    assert main(SHAPE) == 0
    shown = capsys.readouterr().out

    assert isinstance(total, dict)
    assert f"{total['cycles']:,}" in shown and "bound by           MACs" in shown
    assert "24 x 64 GB/s, kllm §V-A" in shown and "kllm Table I: 5.73 W at 500 MHz" in shown
    assert "32 x 0-31" in shown and "no energy: memory" in shown


@pytest.mark.long
def test_several_tokens_and_batches_are_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runs = printed(capsys, *SHAPE, "--tokens", "128,256", "--batch", "2")["runs"]

    assert isinstance(runs, list)
    assert [(run["tokens"], run["batch"]) for run in runs] == [(128, 2), (256, 2)]
    assert runs[0]["total"]["cycles"] < runs[1]["total"]["cycles"]


@pytest.mark.long
def test_trace_and_pictures_are_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("trace.json", "gantt.svg", "roofline.png")]
    words = [word for pair in zip(("--trace", "--plot", "--roofline"), map(str, files), strict=True) for word in pair]
    assert main([*SHAPE, "--tokens", "64", *words]) == 0
    capsys.readouterr()

    assert {path.name for path in tmp_path.iterdir()} == {"trace.json", "gantt.svg", "roofline.png"}
    names = {event["name"] for event in json.loads(files[0].read_text())["traceEvents"]}
    assert {"q", "logits.0", "softmax.0", "down"} <= names
    assert b"search" in files[1].read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plot", "x.pdf"], "must end in .svg or .png"),
        (["--trace", "missing/x.json"], "--trace missing/x.json: the folder must exist"),
        (["--overlap", "all"], "invalid choice: 'all'"),
        (["--machine", "lanes=16x"], "lanes must be"),
        (["--machine", "lanes"], "parameters are name=value, got 'lanes'"),
        (["--tokens", "4,0"], "must be at least 1, got 0"),
        (["--scheme", "leankv-k8v4"], "takes no shapes; use --model"),
        (["--ids", "x.txt"], "leave out --ids"),
        (["--shape", "llama"], "unknown shape 'llama'"),
    ],
)
def test_invalid_options_are_rejected(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([*SHAPE, *words])
    except SystemExit as error:
        code = int(str(error.code))
    assert code == 2
    assert message in capsys.readouterr().err


def test_batch_needs_a_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--model", "tiny", "--scheme", "kllm-a4", "--batch", "2"]) == 2
    assert "--batch and several --tokens need --shape" in capsys.readouterr().err


@pytest.mark.long
def test_an_idle_option_is_rejected_with_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", "tiny", "--scheme", "kllm-a4", "--tokens", "3", "--phase", "decode", "--machine", "carry=sums"]
    for command in ("cost", "machine"):
        assert main([command, *words]) == 2
        assert "option carry changes no number here" in capsys.readouterr().err
