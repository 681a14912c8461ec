"""Threads of a run: by the process, by the backend, by the command line; the bits are those of one."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import threads
from refemu.arith.checks import Refused
from refemu.cli import main
from refemu.models import schemes
from refemu.models.backend import Jit, Numpy, on_threads

TEXT = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man who")
CALIBRATION = list(b"It is a truth universally acknowledged. " * 4)
CASES: list[Any] = [
    ("tiny", name)
    for name in (
        "fp16",
        "olive-4",
        "olive-8",
        "harmonia-kv8",
        "harmonia-kv4",
        "kllm-a4",
        "leankv:k_vec=1,v_group=2,high=K8V8,low=K8V4",
    )
]
CASES += [("tiny-opt", "harmonia-kv4")]
CASES += [
    pytest.param(*case, marks=pytest.mark.slow)
    for case in (("tiny-gpt2", "fp16"), ("tiny-gpt2", "olive-4"), ("tiny-opt", "leankv-k8v8"))
]
FEW: dict[str, Any] = {"low": 90, "high": 130, "step": 20}  #: candidates of a search


def prepared(name: str, scheme: str, threads: int | None) -> Any:
    config = schemes.parse(scheme)
    if scheme.startswith("olive"):
        config = dataclasses.replace(config, **FEW)  # type: ignore[type-var]
    return models.prepare(name, config, Jit(threads), CALIBRATION)


def logits(parts: Any) -> bytes:
    """Logits of a prompt and of steps after it."""
    session = models.session(parts)
    return session.append(TEXT[:40]).tobytes() + b"".join(session.append([token]).tobytes() for token in TEXT[40:])


@pytest.mark.long
@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_no_bit_depends_on_threads(name: str, scheme: str) -> None:
    """Weights are prepared by as many; the process's number has the same effect as the backend's."""
    one = logits(prepared(name, scheme, 1))

    assert one == logits(prepared(name, scheme, 2))
    with threads.using_threads(3):
        assert one == logits(prepared(name, scheme, None))


def test_number_of_backend_counts_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = models.prepare("tiny", backend=Jit(threads=3))
    monkeypatch.setattr(parts, "head", lambda x, watch: np.array(threads.get_threads()))

    assert models.session(parts).append([1]) == 3 != threads.get_threads()
    parts.backend.threads = None
    assert models.session(parts).append([1]) == threads.get_threads()
    with threads.using_threads(5), on_threads(Numpy()):
        assert threads.get_threads() == 5


@pytest.mark.parametrize("wrong", [0, -1, 1025])
def test_invalid_thread_numbers_are_rejected(wrong: int) -> None:
    with pytest.raises(Refused, match="Jit: threads must be"):
        Jit(threads=wrong)


@pytest.mark.parametrize(("words", "variable", "wanted"), [([], None, 1), ([], "3", 3), (["--threads", "2"], "3", 2)])
def test_command_line_sets_number_of_process(
    words: list[str],
    variable: str | None,
    wanted: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("REFEMU_THREADS", raising=False)
    if variable:
        monkeypatch.setenv("REFEMU_THREADS", variable)
    before = threads.get_threads()
    try:
        code = main(["ppl", "--tokens", "8", "--json", *words])

        assert (code, threads.get_threads()) == (0, wanted)
    finally:
        threads.set_threads(before)
    assert '"scored": 7' in capsys.readouterr().out


def test_invalid_thread_variable_is_rejected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REFEMU_THREADS", "many")

    assert main(["ppl", "--tokens", "8"]) == 2
    assert "REFEMU_THREADS: an integer in [1, 1024] is needed, got 'many'" in capsys.readouterr().err
