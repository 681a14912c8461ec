"""Exit codes, misspelt words, closed streams, and imports."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import refemu
from refemu import golden
from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main, models


def refuse(error: BaseException) -> Callable[..., int]:
    def run(_: object) -> int:
        raise error

    return run


def after(first: BaseException, error: BaseException) -> BaseException:
    """An error that was raised while the first one was handled."""
    error.__context__ = first
    return error


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        pytest.param(Refused("a rule"), 2, "refemu: a rule", id="refused value"),
        pytest.param(RefusedType("a type"), 2, "refemu: a type", id="refused type"),
        pytest.param(FileNotFoundError(2, "No such file or directory", "x"), 2, "x: No such file", id="missing file"),
        pytest.param(OSError(28, "No space left on device", "y"), 2, "y: No space left", id="full disk"),
        pytest.param(MemoryError(), 2, "refemu: out of memory; is it limited", id="memory"),
        pytest.param(after(MemoryError(), ValueError("closed")), 2, "refemu: out of memory", id="memory of a library"),
        pytest.param(after(MemoryError(), Refused("x.npz: needs more")), 2, "x.npz: needs more", id="memory of a file"),
        pytest.param(Refused("two units", "a\nb", "c"), 2, "refemu: two units\n  a\\nb\n  c\n", id="lines of details"),
        pytest.param(KeyboardInterrupt(), 130, "interrupted", id="interrupt"),
        pytest.param(IndexError("bug"), 3, "error inside refemu", id="bug"),
        pytest.param(type("Panic", (BaseException,), {})("bug"), 3, "error inside refemu", id="no Exception"),
        pytest.param(ValueError("bug"), 3, "error inside refemu", id="a plain ValueError is a bug"),
    ],
)
def test_exit_code_of_every_failure(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "run", refuse(error))

    assert main(["models"]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["generat"],
        ["show"],
        ["list", "unit"],
        ["check"],
        ["ppl", "--win", "0"],
        ["generate", "--seed", "-1", "-o", "x"],
        ["generate", "--seed", "one", "-o", "x"],
    ],
)
def test_bad_usage_exits_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    """The message is not below lines of usage, which --help prints."""
    message, hint = capsys.readouterr().err.splitlines()
    assert message.startswith("refemu: ") and hint.startswith("Try: refemu ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generat"], "did you mean 'generate'"),
        (["list", "unit"], "refemu: list: unknown kind 'unit'; did you mean 'units'? Known: "),
        (["list", "unit"], "did you mean 'units'"),
        (["explain", "convict"], "explain: no entry 'convict'; did you mean 'convicted'?"),
        (["explain", "verdict"], "explain: no entry 'verdict'; `refemu list`"),
        (
            ["explain", "no_such/thing"],
            "no distribution no-such with a unit is installed; `refemu list units` lists all",
        ),
        (
            ["models", "fetch", "foo"],
            "unknown model or text 'foo'. Known: all-minilm-l6-v2, film-reviews, smollm2-135m\n",
        ),
        (["ppl", "--model", "tiny", "--scheme", "olive-5"], "did you mean 'olive-4' or 'olive-8'?"),
        (["export", "rtl", "nosuch", "-o", "x"], "unknown unit 'nosuch'. `refemu list units` lists all "),
        (["diff", "nosuch", "x"], "refemu: nosuch: no such folder"),
        (["show", "FLINT5"], "did you mean 'FLINT4'"),
        (["step", "ovp_decodr", "--input", "pair=1"], "did you mean 'ovp_decoder'"),
        (["models", "fetch", "smollm2"], "did you mean 'smollm2-135m'"),
        (["ppl", "--model", "tiny", "--scheme", "fp61"], "did you mean 'fp16'"),
        (["ppl", "--model", "tiny", "--scheme", "fp16:ac=fp32"], "did you mean 'acc'"),
    ],
)
def test_unknown_names_give_the_next_step(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_missing_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Compare the answers of a device" in err and "examples:" in err


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
def test_show_and_list_import_nothing_heavy(words: list[str]) -> None:
    code = (
        f"import sys, refemu.cli\nassert refemu.cli.main({words}) == 0\n"
        "print(sorted({'numba', 'rich', 'scipy', 'tokenizers', 'gguf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.long
@pytest.mark.parametrize("words", ["show OVP_INT8 --json", "list"])
def test_closed_pipe_is_silent_with_its_own_code(words: str) -> None:
    command = [sys.executable, "-m", "refemu", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()

        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("ascii", ["show", "FLINT4"]),
        ("latin-1", ["list", "units"]),
        ("cp1252", ["list", "schemes"]),
        ("ascii", ["step", "orizuru"]),
        ("utf-16", ["list", "formats"]),
        ("ascii", ["--help"]),
    ],
)
def test_output_escapes_what_its_encoding_lacks(encoding: str, words: list[str]) -> None:
    done = run(words, PYTHONIOENCODING=encoding)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode(encoding)


def test_set_in_path_without_utf8_is_checked(tmp_path: Path) -> None:
    golden.generate(tmp_path, units=["concat"], configs=["a4"], kinds=["paper"])
    place = os.fsencode(tmp_path) + b"/q\xff"
    os.rename(tmp_path / "concat-a4", place)
    done = run(["check", place], PYTHONIOENCODING="utf-8", REFEMU_CACHE=os.environ.get("REFEMU_CACHE", ""))

    assert (done.returncode, b"q\\udcff" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["models"], b"~nobody_here/x: Could not determine home directory"),
    ],
)
def test_home_of_unknown_user_exits_with_2(words: list[str], message: bytes) -> None:
    done = run(words, REFEMU_HOME="~nobody_here/x", REFEMU_CACHE="")

    assert (done.returncode, message in done.stderr) == (2, True)


def test_model_home_of_unknown_user_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ppl", "--model", "~nobody_here/x"]) == 2
    assert "Could not determine home directory" in capsys.readouterr().err


def run(words: Sequence[str | bytes], **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the command in a new process."""
    return subprocess.run(
        [sys.executable, "-m", "refemu", *words], capture_output=True, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    ("words", "streams", "code", "message"),
    [
        ("generate --stdout --unit concat --kinds paper", ">&-", 2, b"refemu: standard output: closed;"),
        ("models", ">&-", 2, b"refemu: standard output: closed;"),
        ("--help", ">&-", 2, b"refemu: standard output: closed;"),
        ("serve concat", ">&-", 2, b"refemu: serve: must be started by"),
        ("check --stdin --unit concat", "<&-", 2, b"refemu: "),
        ("models", "2>&-", 0, b""),
        ("models --bad", "2>&-", 2, b""),
        ("models --bad", ">&- 2>&-", 2, b""),
        ("models", ">/dev/full", 2, b"refemu: input or output: No space left"),
        ("--help", ">/dev/full", 2, b"refemu: input or output: No space left"),
    ],
)
def test_stream_that_takes_no_text_is_never_success(words: str, streams: str, code: int, message: bytes) -> None:
    if "/dev/full" in streams and not Path("/dev/full").exists():
        pytest.skip("no such device here")
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m refemu {words} {streams}"], capture_output=True, check=False
    )

    assert (done.returncode, done.stdout) == (code, b"" if message else done.stdout)
    assert done.stderr.startswith(message) and done.stderr.count(b"\n") == bool(message), done.stderr


@pytest.mark.parametrize(("given", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_blas_has_one_thread_by_default(given: dict[str, str], used: str) -> None:
    """It must be set before NumPy loads the library: with more threads, a process without memory waits forever."""
    code = (
        "import os, sys\nfrom refemu.cli import main as command\nmain = sys.modules[command.__module__]\n"
        "main.main = lambda: print(os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)\nmain.console()"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**environment, **given})

    assert done.stdout == f"{used} False\n", done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "-o", "", "--unit", "concat"],
        ["export", "csv", "x", "-o", ""],
        ["export", "rtl", "concat", "-o", ""],
        ["check", ""],
    ],
)
def test_empty_path_is_rejected(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An unset variable of the shell must not mean the current folder."""
    assert main(words) == 2
    assert "must be a path, got an empty string" in capsys.readouterr().err


def test_package_in_archive_is_rejected(tmp_path: Path) -> None:
    """refemu reads stubs, benches and pages as files."""
    package = Path(refemu.__file__).parent
    with zipfile.ZipFile(tmp_path / "refemu.zip", "w") as archive:
        for path in (*package.glob("*.py"), *package.glob("cli/*.py"), *package.glob("cli/options/*.py")):
            archive.write(path, path.relative_to(package.parent))
    command, environment = [sys.executable, "-m", "refemu", "list"], {**os.environ, "PYTHONPATH": "refemu.zip"}
    done = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=environment)

    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"refemu.zip/refemu/cli/main.py in an archive; unpack or install it" in done.stderr
