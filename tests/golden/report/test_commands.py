"""Commands of a report reproduce its results."""

import shlex
from pathlib import Path

import pytest

from refemu import golden
from refemu.cli import main
from refemu.cli.arguments import parser
from refemu.golden.report import commands
from refemu.golden.report.regression import Regression
from tests.golden.report.conftest import campaign


def words(command: commands.Command) -> list[str]:
    first, *rest = shlex.split(command.run)
    assert first == "refemu"
    return rest


def test_every_command_parses(outcome: Regression) -> None:
    all_ = [command for each in outcome.sets for command in each.commands]
    all_ += [command for each in outcome.sets for answer in each.answers for command in answer.commands]
    own = [command for command in all_ if command.run.startswith("refemu ")]

    assert {words(command)[0] for command in own} == {"diff", "step", "generate"}
    assert {shlex.split(command.run)[0] for command in all_} == {"refemu", "make", "pytest"}
    for command in own:
        assert parser().parse_args(words(command)).module


def test_commands_reproduce_a_difference(outcome: Regression, capsys: pytest.CaptureFixture[str]) -> None:
    """A saved counterexample is compared in the ports that its test gave."""
    for each in outcome.sets:
        for answer in each.answers:
            for command in answer.commands:
                if command.run.startswith("refemu"):
                    assert main(words(command)) == int(words(command)[0] == "diff"), command
    text = capsys.readouterr().out
    assert "diagnosis:" in text and "olive_mac [wrap]" in text


def test_command_regenerates_a_set(made_once: Path, tmp_path: Path) -> None:
    """All bytes are equal, including exports."""
    for place in ("olive_mac-wrap", "bench/outlier_decoder-e2m1"):
        loaded = golden.load(made_once / place)
        (command,) = commands.of_set(loaded, str(tmp_path))
        assert main(words(command)) == 0
        assert golden.load(tmp_path / loaded.name).manifest["self_sha256"] == loaded.manifest["self_sha256"]


def test_command_regenerates_a_shard(tmp_path: Path) -> None:
    campaign(tmp_path / "c")
    shard = golden.load(tmp_path / "c" / "outlier_decoder-e2m1" / "random-00000000")
    (command,) = commands.of_set(shard, str(tmp_path / "again"))
    assert main(words(command)) == 0
    other = golden.load(tmp_path / "again" / "outlier_decoder-e2m1" / "random-00000000")
    assert other.manifest["self_sha256"] == shard.manifest["self_sha256"]


def test_words_are_quoted_for_a_shell() -> None:
    bench = commands.of_bench(Path("my bench"), Path("other; rm/set"))
    assert [shlex.split(command.run)[:3] for command in bench] == [["make", "-C", "my bench"]] * 2
    assert shlex.split(next(commands.of_bench(Path("b"), Path("o'/set"))).run)[-1].endswith("/o'/set")
