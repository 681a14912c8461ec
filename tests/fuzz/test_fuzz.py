"""No file, option or stream crashes a command: 4,000 damaged inputs end soon with 0, 1 or 2; 10^5 in slow runs."""

import contextlib
import functools
import io
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.cli import main as command_line
from refemu.cli.arguments import parser
from refemu.golden.make import model_cases
from tests.fuzz import samples as good
from tests.fuzz.readers import READERS, Job

EACH = 170  #: inputs for each reader: 26 readers take 4,420
SLOW = 5_600  #: the same in the slow run
PROCESSES = 12  #: of the inputs of `command_line` and `stepping` that a process of its own runs
LONGEST = 60  #: seconds of the processor for an input: a hundred times what one takes
main = sys.modules[command_line.__module__]


class Hang(BaseException):
    """An input took longer than LONGEST."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> good.Samples:
    """The samples, after each kind of model has run once, so that its kernels are compiled."""
    made = good.make(tmp_path_factory.mktemp("good"))
    for path in (made.gguf, made.models[good.GPT2], made.models[good.OPT]):
        assert command_line(["ppl", "--model", str(path), "--tokens", "4", "--win", "4"]) == 0
    return made


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, and a cache without models: nothing outside is read or written."""
    monkeypatch.setenv("REFEMU_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(main, "parser", functools.cache(parser))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@contextlib.contextmanager
def limited() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Hang(f"longer than {LONGEST} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fault(job: Job) -> str:
    """What is wrong with the end of a job; "" for exit codes 0, 1, 2 and for errors of the input."""
    said, streams, code = io.BytesIO(), (sys.stdin, sys.stdout, sys.stderr), 0
    output = io.TextIOWrapper(said, "utf-8", "backslashreplace", write_through=True)
    sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(job.stdin)), output, output
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if job.call is not None:
                job.call()
            else:
                code = command_line(job.words)
    except (Refused, RefusedType, OSError) as refusal:
        wrong = "more memory than" in str(refusal) or len(str(refusal).splitlines()) != 1
        return repr(refusal)[:2000] if wrong else ""
    except Hang as hang:
        return str(hang)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:2000]
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    text = said.getvalue().decode()
    if "more memory than" in text:
        return text[-2000:]
    return "" if code in (0, 1, 2) else f"exit {code}: {text[-2000:]}"


def faults(reader: str, first: int, count: int, samples: good.Samples, folder: Path) -> Iterator[str]:
    """Every fault among `count` inputs; each follows from its number alone."""
    for number in range(first, first + count):
        model_cases.forget()
        job = READERS[reader](Random(f"{reader} {number}"), samples, folder)
        if what := fault(job):
            yield f"{reader} {number}: {str(job.words)[:500]}: {what}"
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
def test_damaged_inputs_end_with_valid_exit_codes(reader: str, samples: good.Samples, apart: Path) -> None:
    assert list(faults(reader, 0, EACH, samples, apart)) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("reader", READERS)
def test_many_damaged_inputs_end_with_valid_exit_codes(
    reader: str, part: int, samples: good.Samples, apart: Path
) -> None:
    count = SLOW // 10
    assert list(faults(reader, EACH + part * count, count, samples, apart)) == []


@pytest.mark.parametrize("reader", ["command_line", "stepping"])
def test_command_ends_as_the_function_does(reader: str, samples: good.Samples, apart: Path) -> None:
    """In its own process, with an output encoding that lacks most characters."""
    for number in range(PROCESSES // 2):
        job = READERS[reader](Random(f"{reader} {number}"), samples, apart)
        words = [word.encode("utf-8", "surrogateescape") for word in job.words or ()]
        done = subprocess.run(
            [sys.executable, "-m", "refemu", *words],
            input=job.stdin,
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            timeout=10 * LONGEST,
            check=False,
        )
        assert done.returncode in (0, 1, 2), (reader, number, done.stderr)


def test_undamaged_samples_are_read(samples: good.Samples, apart: Path) -> None:
    """Undamaged samples are read; otherwise no test would get past the first error."""
    from refemu.models import load

    for one in samples.sets:
        assert command_line(["check", str(one.folder)]) == 0
        for name, data in one.answers.items():
            (apart / name).write_bytes(data)
            assert command_line(["diff", str(one.folder), str(apart / name)]) == 0
        words = ["check", "--stdin", "--unit", one.unit, "--config", one.folder.name.partition("-")[2]]
        assert fault(Job(words, b"".join(one.piped))) == ""
    for path in (*samples.models.values(), samples.gguf, samples.shards):
        assert load(path).tokenizer.encode("the")
