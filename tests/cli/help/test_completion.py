"""The Tab key, in a real bash: commands, options, and names of units, schemes, formats and decisions."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.cli.arguments import parser
from refemu.cli.help import completion
from refemu.studies import NAMES
from tests.cli.help.parsers import parsers

#: what bash does at the Tab key: it sets these variables and calls the function that `complete -F` named
TAB = """
source {script}
COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9
function=$(complete -p refemu | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function refemu
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script for bash, and the command that it calls in the same folder."""
    folder: Path = tmp_path_factory.mktemp("bash")
    (folder / "refemu").write_text(f"#!{sys.executable}\nfrom refemu.cli import console\nconsole()\n")
    (folder / "refemu").chmod(0o755)
    (folder / "refemu.bash").write_text(completion.script("bash"))
    return folder / "refemu.bash"


def tab(line: str, script: Path) -> list[str]:
    """The completions of bash for the last word of a line."""
    variables = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}"}
    text = TAB.format(script=shlex.quote(str(script)), line=shlex.quote(line))
    command = ["bash", "--norc", "--noprofile", "-c", text]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True)
    return [word.rstrip() for word in ended.stdout.splitlines()]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("refemu gr", ["grade"]),
        ("refemu list u", ["units"]),
        ("refemu diff --ex", ["--explain"]),
        ("refemu step orizuru_c", ["orizuru_clocked"]),
        ("refemu step ovp_decoder:fl", ["flint4"]),  # bash takes the colon for the end of a word
        ("refemu step ovp_decoder --config int8", ["int8", "int8_repo"]),
        ("refemu generate --unit page_m", ["page_manager"]),
        ("refemu ppl --scheme harmonia-kv8", ["harmonia-kv8"]),
        ("refemu show OVP_INT8", ["OVP_INT8", "OVP_INT8_REPO"]),
        ("refemu explain D-olive-19", ["D-olive-19"]),
        ("refemu explain harmonia-kv4.prefill_w", ["harmonia-kv4.prefill_window"]),
        ("refemu explain vict", ["victim"]),
        ("refemu generate --kinds edge,ran", ["edge,random"]),
        ("refemu models fetch smoll", ["smollm2-135m"]),
        ("refemu schema exp", ["explain"]),
        ("refemu study olive --only weights,la", ["weights,ladder"]),
        ("refemu study kllm --figure table", ["table2", "table4"]),
    ],
)
def test_bash_completes_words(line: str, expected: list[str], script: Path) -> None:
    assert tab(line, script) == expected


@pytest.mark.parametrize(
    ("metavar", "prefix", "some"),
    [
        ("UNIT", "", {"orizuru", "ovp_decoder", "paged_attention"}),
        ("UNIT", "ovp_decoder:", {"ovp_decoder:int4", "ovp_decoder:flint4"}),
        ("UNIT", "no_unit:", set()),
        ("SCHEME", "", {"fp16", "olive-4", "kllm-a4"}),
        ("SCHEME", "olive-4+", {"olive-4+leankv", "olive-4+harmonia-kv4"}),
        ("SCHEME", "olive-4:", {"olive-4:low=", "olive-4:skip="}),
        ("SCHEME", "kllm-a4+leankv:window=4,", {"kllm-a4+leankv:window=4,page_bytes="}),
        ("FORMAT", "", {"INT4", "K8V4", "page", "D-olive-19"}),
        ("WORD", "", {"victim", "D-olive-19", "orizuru", "fp16", "INT4"}),
        ("WORD", "orizuru.", {"orizuru.x", "orizuru.k"}),
        ("MODEL", "", {"tiny", "smollm2-135m"}),
        ("CLASS,...", "bits,", {"bits,order", "bits,model"}),
    ],
)
def test_completer_lists_names(metavar: str, prefix: str, some: set[str]) -> None:
    names = set(completion._OF_METAVAR[metavar](prefix, None))

    assert some <= names and all(name.startswith(prefix) or not prefix or metavar == "WORD" for name in names)
    assert bool(names) == bool(some)


@pytest.mark.parametrize("paper", NAMES)
def test_parts_and_figures_match_help_of_study(paper: str) -> None:
    command = next(each for each in parsers(parser()) if each.prog == f"refemu study {paper}")
    for option in ("only", "figure"):
        listed = next(action.help or "" for action in command._actions if action.dest == option)
        names = set(completion._OF_ARGUMENT[command.prog, option]("", None))
        assert names and all(re.search(rf"\b{name}\b", listed) for name in names), (option, names)


@pytest.mark.parametrize("parsed", [{"unit": "orizuru"}, {"unit": ["concat", "orizuru"]}, {"word": "orizuru"}])
def test_configurations_belong_to_the_named_unit(parsed: dict[str, Any]) -> None:
    assert "n8" in completion._OF_METAVAR["CONFIG"]("", argparse.Namespace(**parsed))
    assert not completion._OF_METAVAR["CONFIG"]("", argparse.Namespace(word="victim"))
    assert not completion._OF_METAVAR["CONFIG"]("", argparse.Namespace())


def test_names_of_plug_ins_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every kind of plug-in."""
    monkeypatch.setattr("refemu.formats.plugged", lambda: ("LAB4",))
    monkeypatch.setattr("refemu.models.schemes.plugged", lambda: ("lab-4",))
    monkeypatch.setattr("refemu.models.plugin_models.REGISTRY", SimpleNamespace(names=lambda: ("lab-net",)))
    for metavar, name in (("FORMAT", "LAB4"), ("SCHEME", "lab-4"), ("MODEL", "lab-net")):
        assert name in set(completion._OF_METAVAR[metavar]("", None))


def test_every_completer_has_an_argument() -> None:
    """A renamed metavar would silently complete files."""
    top = parser()
    completion.attach(top)
    words = {str(action.metavar) for each in parsers(top) for action in each._actions if hasattr(action, "completer")}
    assert set(completion._OF_METAVAR) <= words
    assert {(each.prog, action.dest) for each in parsers(top) for action in each._actions} >= set(
        completion._OF_ARGUMENT
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "refemu" in capsys.readouterr().out


def test_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("argcomplete", "argcomplete.shell_integration"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Refused, match=r"pip install argcomplete"):
        completion.script("bash")
    completion.answer(parser())  # the shell gets no answer
