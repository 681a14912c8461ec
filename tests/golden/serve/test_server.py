"""Frames: every request gets an answer or an error message, and the server continues."""

import os
import struct
import threading
import time

import numpy as np
import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.serve import server
from refemu.golden.serve.predictor import Predictor
from tests.golden import committed
from tests.golden.serve.pipes import Client, cases, connected, packed

STEP, RUN, RESET, CLOSE = 1, 2, 3, 4
MAC = {"load": 1, "acc_in": 5}


def predictor(name: str) -> Predictor:
    unit, _, config = name.partition("-")
    return Predictor(units.find(unit), config)


@pytest.fixture(scope="module")
def decoder() -> Predictor:
    return predictor("ovp_decoder-int4")


def test_hello_comes_first(decoder: Predictor) -> None:
    with connected(decoder) as client:
        assert client.protocol == 1
        assert client.hello == decoder.hello


def test_step_and_rows_are_answered(decoder: Predictor) -> None:
    """The pair of the README, 48 and a victim: exponents, integers, illegal, lowest bit first."""
    with connected(decoder) as client:
        word = struct.pack("<I", 0x85 | 2 << 8)
        answer = struct.unpack("<I", client.answered(STEP, word))[0]
        assert [answer & 15, answer >> 4 & 15, answer >> 8 & 15, answer >> 12 & 15, answer >> 16] == [4, 0, 3, 0, 0]
        assert client.answered(RUN, 3 * word) == 3 * struct.pack("<I", answer)
        assert client.answered(RUN) == b""


def test_reset_restarts_the_unit() -> None:
    with connected(predictor("olive_mac-wrap")) as client:
        load, hold = (number.to_bytes(8, "little") for number in (1 | 5 << 1, 0))
        first = client.answered(STEP, load)
        assert client.answered(STEP, hold) != client.answered(RESET) + bytes(8)
        client.answered(STEP, load)
        client.answered(RESET)
        assert client.answered(STEP, hold) == bytes(8) != first


@pytest.mark.parametrize(
    ("kind", "payload", "message"),
    [
        (STEP, bytes(8), "a transaction must have 4 bytes, 1 words, got 8 bytes"),
        (RUN, bytes(6), "rows must have 4 bytes each"),
        (RESET, bytes(4), "reset takes no bytes, got 4"),
        (CLOSE, bytes(4), "close takes no bytes, got 4"),
        (0, b"", "a request must be 1 step, 2 run, 3 reset or 4 close, got 0"),
        (77, bytes(4), "got 77"),
    ],
)
def test_request_after_an_invalid_one_is_answered(decoder: Predictor, kind: int, payload: bytes, message: str) -> None:
    with connected(decoder) as client:
        assert message in client.refused(kind, payload)
        assert client.answered(STEP, bytes(4)) == bytes(4)


def test_too_long_request_is_read_and_rejected(decoder: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST", 100)
    with connected(decoder) as client:
        assert "at most 100 bytes, got 104" in client.refused(RUN, bytes(104))
        assert len(client.answered(RUN, bytes(100))) == 100


def test_request_in_parts_is_assembled(decoder: Predictor) -> None:
    with connected(decoder) as client:
        for byte in struct.pack("<II", STEP, 4) + bytes(4):
            os.write(client.sink, bytes([byte]))
        assert struct.unpack("<II", client.read(8)) == (0, 4) and client.read(4) == bytes(4)


def test_nonblocking_pipes_are_awaited(decoder: Predictor) -> None:
    """A parent may pass on non-blocking ends; the answer is larger than a pipe's buffer."""
    with connected(decoder, blocking=False) as client:
        time.sleep(0.01)  # longer than the server polls
        assert len(client.answered(RUN, bytes(1 << 18))) == 1 << 18


def served(decoder: Predictor, *requests: bytes) -> BaseException | None:
    """The server's error if its input ends after these bytes."""
    raised: list[BaseException] = []
    asked, replies = os.pipe(), os.pipe()

    def serve() -> None:
        try:
            server.serve(decoder, asked[0], replies[1])
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    client = Client(asked[1], replies[0])
    for request in requests:
        os.write(client.sink, request)
    os.close(client.sink)
    thread.join(60)
    assert not thread.is_alive()
    for descriptor in (asked[0], *replies):
        os.close(descriptor)
    return raised[0] if raised else None


def test_closed_pipe_ends_the_server_quietly(decoder: Predictor) -> None:
    assert served(decoder) is None
    assert served(decoder, struct.pack("<II", STEP, 4) + bytes(4)) is None


@pytest.mark.parametrize("part", [1, 7, 8, 11])
def test_pipe_closed_within_request_is_an_error(decoder: Predictor, part: int) -> None:
    error = served(decoder, (struct.pack("<II", STEP, 4) + bytes(4))[:part])

    assert isinstance(error, Refused) and "closed in the middle of a request" in str(error)


def test_requests_before_the_reply_are_rejected(decoder: Predictor) -> None:
    error = served(decoder, 2 * (struct.pack("<II", STEP, 4) + bytes(4)))

    assert isinstance(error, Refused) and "12 bytes follow a request" in str(error)


@pytest.mark.long
@pytest.mark.parametrize("name", committed.NAMES)
def test_server_answers_every_committed_set(name: str) -> None:
    """Complete cases are sent as rows, and the first rows of the set one by one."""
    set_, unit = committed.read(name), predictor(name)
    asked, answers = packed(unit.layout_in, set_), packed(unit.layout_out, set_)

    with connected(unit) as client:
        wrong = []
        for first, rows in cases(set_) if unit.stateful else [(0, set_.rows)]:
            client.answered(RESET)
            got = np.frombuffer(client.answered(RUN, asked[first : first + rows].tobytes()), np.uint32)
            differing = (got.reshape(rows, -1) != answers[first : first + rows]).any(axis=1)
            wrong += (first + np.flatnonzero(differing)).tolist()
        assert wrong == []
        client.answered(RESET)
        for row in range(min(5, next(cases(set_))[1] if unit.stateful else set_.rows)):
            assert client.answered(STEP, asked[row].tobytes()) == answers[row].tobytes()
