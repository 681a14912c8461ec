"""Frames on two pipes: what a client asks of a unit, what it answers. All words are of 32 bits, little-endian.

At the start the server says hello: MAGIC, PROTOCOL, the number of bytes that follow, and as many bytes of JSON. A
request is a kind, a number of bytes and the bytes of a payload; the reply is a status, a number of bytes and the bytes:
packed answers behind OK, a sentence in UTF-8 behind ERROR. Whatever is refused leaves the state as it was.
"""

import json
import os
import select
import struct
import time
from collections.abc import Callable

from refemu.arith.checks import Refused, RefusedType
from refemu.golden.serve.hello import PROTOCOL
from refemu.golden.serve.predictor import Predictor

MAGIC = 0x554D4652  #: "RFMU" in memory
STEP, RUN, RESET, CLOSE = 1, 2, 3, 4  #: kinds of requests
OK, ERROR = 0, 1  #: status of a reply
HEAD = struct.Struct("<II")
HELLO = struct.Struct("<III")
LONGEST = 1 << 26  #: bytes of a payload
CHUNK = 1 << 18  #: bytes that are read at once
#: time that the process polls for the next request before it sleeps: waking it takes longer than most transactions
AWAKE_NS = 60_000
ASLEEP = 32  #: requests for which it sleeps at once, after it has polled in vain


def serve(predictor: Predictor, source: int, sink: int) -> None:
    """Say hello on the file descriptor `sink`, and answer the requests on `source` until CLOSE or its end.

    Refused: a request that ends in the middle.
    """
    hello = json.dumps(predictor.hello, sort_keys=True, ensure_ascii=True).encode()
    _write(sink, HELLO.pack(MAGIC, PROTOCOL, len(hello)) + hello)
    stream = _Requests(source)
    while (request := stream.next()) is not None:
        status, payload = answer(predictor, *request)
        _write(sink, HEAD.pack(status, len(payload)) + payload)
        if request[0] == CLOSE and status == OK:
            return


def answer(predictor: Predictor, kind: int, size: int, payload: bytes | bytearray) -> tuple[int, bytes]:
    """Status and payload of the reply to a request; size: bytes that it had, of which a longer one than LONGEST keeps
    none in `payload`.
    """
    try:
        if size > LONGEST:
            raise Refused(f"serve: a request has at most {LONGEST} bytes, got {size}: send fewer rows at once")
        if kind == STEP:
            return OK, predictor.step(payload)
        if kind == RUN:
            return OK, predictor.run(payload)
        if kind not in (RESET, CLOSE):
            raise Refused(f"serve: a request is {STEP} step, {RUN} run, {RESET} reset or {CLOSE} close, got {kind}")
        if size:
            raise Refused(f"serve: {'reset' if kind == RESET else 'close'} takes no bytes, got {size}")
    except (Refused, RefusedType) as error:
        return ERROR, str(error).encode()
    except MemoryError:
        return ERROR, f"serve: no memory for {size} bytes of rows: send fewer rows at once".encode()
    predictor.reset()
    return OK, b""


class _Requests:
    """Requests on a file descriptor."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._ready = _ready(source)
        self._asleep = 0  # requests left for which the process sleeps at once

    def next(self) -> tuple[int, int, bytes | bytearray] | None:
        """Kind, size and payload; None where the pipe was closed between two requests."""
        self._wait_awake()
        data = _read(self._source, CHUNK)
        if not data:
            return None
        if len(data) >= HEAD.size:  # most often a whole request: a client waits for the reply before it sends another
            kind, size = HEAD.unpack_from(data)
            if len(data) == HEAD.size + size:
                return kind, size, data[HEAD.size :]
        return self._rest(bytearray(data))

    def _rest(self, data: bytearray) -> tuple[int, int, bytearray]:
        while len(data) < HEAD.size:
            data += self._more(HEAD.size - len(data))
        kind, size = HEAD.unpack_from(data)
        del data[: HEAD.size]
        if len(data) > size:
            raise Refused(
                f"serve: {len(data) - size} bytes follow a request whose reply is not sent yet: wait for the reply"
            )
        have = len(data)
        while have < size:
            part = self._more(min(CHUNK, size - have))
            have += len(part)
            if size <= LONGEST:
                data += part
        return kind, size, data

    def _wait_awake(self) -> None:
        """Poll for the next request for AWAKE_NS, unless polling was in vain lately, as on a busy machine."""
        if self._asleep:
            self._asleep -= 1
            return
        end = time.perf_counter_ns() + AWAKE_NS
        while not self._ready():
            if time.perf_counter_ns() >= end:
                self._asleep = ASLEEP
                return

    def _more(self, most: int) -> bytes:
        part = _read(self._source, most)
        if not part:
            raise Refused("serve: the pipe was closed in the middle of a request")
        return part


def _ready(source: int) -> Callable[[], object]:
    """A function that says whether a read would return at once; always true where the system cannot poll a pipe."""
    if not hasattr(select, "poll"):
        return lambda: True
    watch = select.poll()
    watch.register(source, select.POLLIN)
    return lambda: watch.poll(0)


def _read(source: int, most: int) -> bytes:
    """Up to `most` bytes, b"" at the end; waits for them where whoever made the pipe made it non-blocking."""
    while True:
        try:
            return os.read(source, most)
        except BlockingIOError:
            select.select([source], [], [])


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            select.select([], [sink], [])
