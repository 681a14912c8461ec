"""`refemu serve` as a process: only frames on standard output, errors on standard error."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refemu.cli import main
from tests.golden.serve.pipes import Client

STEP, RESET, CLOSE = 1, 3, 4


def started(*words: str, **more: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "refemu", "serve", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)


def client_of(process: "subprocess.Popen[bytes]") -> Client:
    assert process.stdin and process.stdout
    return Client(process.stdin.fileno(), process.stdout.fileno())


def test_session_answers_requests() -> None:
    with started("olive_mac:overflow=saturate", "--registers") as process:
        client = client_of(process)
        assert client.hello["set"] == "olive_mac-saturate"
        load = (1 | 5 << 1).to_bytes(8, "little")
        answer = int.from_bytes(client.answered(STEP, load), "little")
        assert answer >> 13 & 0xFFFFFFFF == 5  # after shift and product
        client.answered(RESET)
        assert client.answered(STEP, bytes(8)) == bytes(8)
        client.answered(CLOSE)
        assert process.wait(60) == 0
        assert process.stdout and process.stdout.read() == b""
        assert process.stderr and process.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ovp_decodre"], "did you mean 'ovp_decoder'"),
        (["orizuru:n=0"], "orizuru: n"),
        (["ovp_decoder:int4", "--config", "int8"], "configuration must be given once"),
    ],
)
def test_invalid_unit_prints_only_an_error(words: list[str], message: str) -> None:
    with started(*words) as process:
        out, error = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, b"")
    assert message in error.decode() and error.decode().startswith("refemu: ")


def test_client_that_ends_stops_server_silently() -> None:
    with started("flint_decoder") as process:
        client_of(process)
        assert process.stdin and process.stderr
        process.stdin.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_client_that_stops_reading_stops_server_silently() -> None:
    with started("flint_decoder") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        assert process.wait(120) == 0
        assert process.stderr.read() == b""


def test_truncated_request_is_an_error() -> None:
    with started("flint_decoder") as process:
        client = client_of(process)
        os.write(client.sink, b"\x01\x00\x00")
        time.sleep(0.01)
        assert process.stdin and process.stderr
        process.stdin.close()
        assert process.wait(60) == 2
        assert b"closed in the middle of a request" in process.stderr.read()


def test_terminal_is_rejected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor == 0)

    assert main(["serve", "flint_decoder"]) == 2
    assert "got a terminal" in capsys.readouterr().err


def test_help_shows_how_it_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "refemu export dpi UNIT" in text and "orizuru:n=16,k=2" in text


def test_the_page_has_the_numbers_of_the_frames() -> None:
    from refemu.golden.serve import server

    page = (Path(__file__).parents[2] / "docs" / "serve-protocol.md").read_text()
    assert f"{server.MAGIC:#010x}" in page
    for number, name in ((server.STEP, "step"), (server.RUN, "run"), (server.RESET, "reset"), (server.CLOSE, "close")):
        assert f"| {number} | {name} |" in page
