"""`refemu simulate` prints the report of a simulation, as tables and as JSON, and draws it."""

import json
from pathlib import Path
from typing import Any

import pytest

from refemu.cli import main
from refemu.models.schemes.leankv import serving

WORDS = ["simulate", "--shape", "llama-3.2-1b", "--high-share", "0.3", "--rate", "50", "--requests", "4"]
WORDS += ["--prompt", "30", "--generate", "12"]


@pytest.mark.long
def test_json_has_totals_requests_and_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert main(WORDS) == 0
    shown = capsys.readouterr().out

    assert report["total"]["tokens"] == 48 and report["total"]["batch"]["max"] <= 4
    assert report["total"]["tokens_per_second"] == 48 / report["total"]["seconds"]
    assert [report["requests"][name] for name in ("finished", "preempted", "rejected")] == [4, 0, 0]
    assert report["pages"]["leaked"] == 0 < report["pages"]["fragmentation"] < 1
    assert f"{report['pages']['number']}, {report['pages']['bytes']}" in shown


@pytest.mark.long
def test_trace_file_gives_all_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, plot = tmp_path / "trace.jsonl", tmp_path / "plot.svg"
    path.write_text('{"arrival": 0, "prompt": 20, "generate": 5}\n{"arrival": 9, "prompt": 3, "generate": 2}\n')
    words = ["simulate", "--scheme", "fp16", "--shape", "llama-3.2-1b", "--trace", str(path)]
    assert main([*words, "--plot", str(plot), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)

    assert (report["scheme"], report["total"]["tokens"], report["total"]["batch"]) == (
        "fp16",
        7,
        {"mean": 1.0, "max": 1},
    )
    assert report["total"]["seconds"] > 9
    for title in ("Batch", "Pages", "Fragmentation", "Stalls", "Preemptions", "Throughput"):
        assert f"<!-- {title} -->" in plot.read_text()
    assert main([*words, "--requests", "2"]) == 2
    assert "--requests changes nothing" in capsys.readouterr().err


@pytest.mark.long
def test_options_reach_the_simulation(capsys: pytest.CaptureFixture[str]) -> None:
    chosen: dict[str, Any] = {"gpu": "a100", "workers": 2, "memory_share": 0.5, "slots": 2, "preemption": "none"}
    chosen |= {"seed": 7, "high_share": 0.3, "pruned_share": 0.2, "context": 200, "shape": "llama-3.2-1b"}
    drawn = {"rate": 50.0, "requests": 4, "prompt": 30, "generate": 12}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in (chosen | drawn).items()]
    assert main(["simulate", *words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = serving.simulate("leankv", serving.drawn(seed=7, **drawn), serving.Setting(**chosen)).as_json()

    assert {name: report[name] for name in expected} == json.loads(json.dumps(expected))


def test_requests_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--rate", "2"]) == 2
    assert "give --trace FILE, or --rate R with --requests N" in capsys.readouterr().err
    assert main(["simulate", "--rate", "x"]) == 2
    assert "must be a number, got 'x'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (["--rate", "0"], "got 0\n"),
        (["--rate", "1e10"], "got 1e10\n"),
        (["--rate", "1", "--memory-share", "1.50"], "got 1.50\n"),
        (["--rate", "1", "--high-share", "0.70", "--pruned-share", ".9"], "got 0.70 and .9\n"),
        (["--rate", "1", "--workers", "00"], "got 00\n"),
    ],
)
def test_invalid_number_is_printed_as_typed(words: list[str], typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--requests", "3", *words]) == 2
    assert typed in capsys.readouterr().err
