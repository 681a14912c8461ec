"""Frames on two pipes: a client's requests and a unit's answers. All words have 32 bits, little-endian.

The server first sends a hello frame: MAGIC, PROTOCOL, a number of bytes and as many bytes of JSON. A request is a kind,
a number of bytes and a payload; the reply is a status, a number of bytes and a payload: packed answers after OK, a
sentence in UTF-8 after ERROR. An invalid request does not change the state.
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
CHUNK = 1 << 18  #: bytes read at once
#: time of polling for the next request before a sleep: waking up takes longer than most transactions
AWAKE_NS = 60_000
ASLEEP = 32  #: requests without polling after polling found none


def serve(predictor: Predictor, source: int, sink: int) -> None:
    """Send hello to the file descriptor `sink`, and answer requests from `source` until CLOSE or its end.

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
    """Status and payload of the reply to a request.

    size: its number of bytes; `payload` is empty if they are more than LONGEST.
    """
    try:
        if size > LONGEST:
            raise Refused(f"serve: a request must have at most {LONGEST} bytes, got {size}; send fewer rows at once")
        if kind == STEP:
            return OK, predictor.step(payload)
        if kind == RUN:
            return OK, predictor.run(payload)
        if kind not in (RESET, CLOSE):
            raise Refused(
                f"serve: a request must be {STEP} step, {RUN} run, {RESET} reset or {CLOSE} close, got {kind}"
            )
        if size:
            raise Refused(f"serve: {'reset' if kind == RESET else 'close'} takes no bytes, got {size}")
    except (Refused, RefusedType) as error:
        return ERROR, str(error).encode()
    except MemoryError:
        return ERROR, f"serve: no memory for {size} bytes of rows; send fewer rows at once".encode()
    predictor.reset()
    return OK, b""


class _Requests:
    """Requests on a file descriptor."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._ready = _ready(source)
        self._asleep = 0  # requests left without polling

    def next(self) -> tuple[int, int, bytes | bytearray] | None:
        """Kind, size and payload; None if the pipe was closed between two requests."""
        self._wait_awake()
        data = _read(self._source, CHUNK)
        if not data:
            return None
        if len(data) >= HEAD.size:  # usually a complete request: a client waits for each reply
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
            raise Refused(f"serve: {len(data) - size} bytes follow a request before its reply; wait for each reply")
        have = len(data)
        while have < size:
            part = self._more(min(CHUNK, size - have))
            have += len(part)
            if size <= LONGEST:
                data += part
        return kind, size, data

    def _wait_awake(self) -> None:
        """Poll for the next request for AWAKE_NS, unless polling recently failed, as on a busy machine."""
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
    """A function that returns whether a read would return at once; True if the system cannot poll a pipe."""
    if not hasattr(select, "poll"):
        return lambda: True
    watch = select.poll()
    watch.register(source, select.POLLIN)
    return lambda: watch.poll(0)


def _read(source: int, most: int) -> bytes:
    """Up to `most` bytes, b"" at the end; waits even if the pipe is non-blocking."""
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
