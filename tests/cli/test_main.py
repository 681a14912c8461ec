"""Exit codes, misspelt words, closed pipes, and that nothing heavy is imported for help."""

import subprocess
import sys
from collections.abc import Callable

import pytest

import refemu
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main
from refemu.cli import models as command


def refuse(error: BaseException) -> Callable[..., int]:
    def run(_: object) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        pytest.param(Refused("a rule"), 2, "refemu: a rule", id="refused value"),
        pytest.param(RefusedType("a type"), 2, "refemu: a type", id="refused type"),
        pytest.param(FileNotFoundError(2, "No such file or directory", "x"), 2, "x: No such file", id="missing file"),
        pytest.param(OSError(28, "No space left on device", "y"), 2, "y: No space left", id="full disk"),
        pytest.param(KeyboardInterrupt(), 130, "interrupted", id="interrupt"),
        pytest.param(IndexError("bug"), 3, "error inside refemu", id="bug"),
        pytest.param(ValueError("bug"), 3, "error inside refemu", id="a plain ValueError is a bug"),
    ],
)
def test_exit_code_of_every_failure(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", refuse(error))

    assert main(["models"]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["generat"],
        ["show"],
        ["list", "unit"],
        ["check"],
        ["ppl", "--win", "0"],
        ["generate", "--seed", "-1", "-o", "x"],
        ["generate", "--seed", "one", "-o", "x"],
    ],
)
def test_bad_usage_is_unusable(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: refemu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generat"], "did you mean 'generate'"),
        (["list", "unit"], "did you mean 'units'"),
        (["show", "FLINT5"], "did you mean 'FLINT4'"),
        (["step", "ovp_decodr", "--input", "pair=1"], "did you mean 'ovp_decoder'"),
        (["models", "fetch", "smollm2"], "did you mean 'smollm2-135m'"),
        (["ppl", "--scheme", "fp61"], "did you mean 'fp16'"),
        (["ppl", "--scheme", "fp16:ac=fp32"], "did you mean 'acc'"),
    ],
)
def test_unknown_names_list_the_nearest(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"refemu {refemu.__version__}\n"


def test_module_runs_and_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, refemu.cli\nassert refemu.cli.main(['--help']) == 0\n"
        "print(sorted({'numpy', 'numba', 'rich', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
    assert subprocess.run(
        [sys.executable, "-m", "refemu", "--version"], capture_output=True, text=True, check=True
    ).stdout.startswith("refemu ")


@pytest.mark.parametrize("words", [["show", "INT4"], ["list"]])
def test_what_is_shown_and_listed_needs_nothing_heavy(words: list[str]) -> None:
    code = (f"import sys, refemu.cli\nassert refemu.cli.main({words}) == 0\n"
            "print(sorted({'numba', 'rich', 'scipy', 'tokenizers', 'gguf'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", ["show OVP_INT8 --json", "list"])
def test_closed_pipe_is_silent_and_is_not_called_different(words: str) -> None:
    command = [sys.executable, "-m", "refemu", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()

        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_works_without_standard_output_or_error(closed: str) -> None:
    assert subprocess.run(["sh", "-c", f"{sys.executable} -m refemu models {closed}"], check=False).returncode == 0
