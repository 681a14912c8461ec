"""A client of the server in Python, and a server in a thread at the other end of real pipes."""

import contextlib
import json
import os
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu.golden.files import fields, hexfile, sets
from refemu.golden.serve import server
from refemu.golden.serve.layout import Layout
from refemu.golden.serve.predictor import Predictor


class Client:
    """Uses the frames of docs/serve-protocol.md, implemented independently of the server."""

    def __init__(self, sink: int, source: int) -> None:
        self.sink, self.source = sink, source
        magic, self.protocol, size = struct.unpack("<4sII", self.read(12))
        assert magic == b"RFMU"
        self.hello: dict[str, Any] = json.loads(self.read(size))

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = os.read(self.source, size - len(data))
            assert part, "the server disappeared"
            data += part
        return data

    def ask(self, kind: int, payload: bytes = b"") -> tuple[int, bytes]:
        data = struct.pack("<II", kind, len(payload)) + payload
        while data:
            data = data[os.write(self.sink, data) :]
        status, size = struct.unpack("<II", self.read(8))
        return status, self.read(size)

    def refused(self, kind: int, payload: bytes = b"") -> str:
        status, text = self.ask(kind, payload)
        assert status == 1
        return text.decode()

    def answered(self, kind: int, payload: bytes = b"") -> bytes:
        status, data = self.ask(kind, payload)
        assert status == 0, data
        return data


@contextlib.contextmanager
def connected(predictor: Predictor, blocking: bool = True) -> Iterator[Client]:
    """A client of `predictor`; the server ends with it. blocking: whether its ends of the pipes block."""
    requests, replies = os.pipe(), os.pipe()
    os.set_blocking(requests[0], blocking)
    os.set_blocking(replies[1], blocking)
    thread = threading.Thread(target=server.serve, args=(predictor, requests[0], replies[1]))
    thread.start()
    client = Client(requests[1], replies[0])
    try:
        yield client
        client.answered(server.CLOSE)
    finally:
        os.close(requests[1])
        thread.join(60)
        for descriptor in (requests[0], *replies):
            os.close(descriptor)
    assert not thread.is_alive()


def packed(layout: Layout, set_: sets.Golden) -> np.ndarray:
    """The words of all rows of a set, uint32 (rows, words), by the code of the hex files."""
    entries = [{"name": p.name, "lanes": p.port.count, "bits": p.port.bits, "signed": False} for p in layout.places]
    arrays = {}
    for place in layout.places:
        prefix, suffix = ("out", ".care") if place.group == "care" else (place.group, "")
        name = f"{prefix}.{place.port.name}{suffix}"
        ones = np.full((set_.rows, *_lanes(place.port.count)), fields.mask_of(place.port.bits), np.uint64)
        arrays[place.name] = set_.arrays.get(name, ones)
    lines = b"".join(hexfile.lines(hexfile.layout(entries), arrays)).split()
    return np.array([_words(int(line, 16), layout.words) for line in lines], np.uint32)


def _words(number: int, words: int) -> list[int]:
    return [number >> 32 * word & 0xFFFFFFFF for word in range(words)]


def _lanes(lanes: int) -> tuple[int, ...]:
    return (lanes,) if lanes > 1 else ()


def cases(set_: sets.Golden) -> Iterator[tuple[int, int]]:
    """First row and number of rows of every case."""
    for entry in set_.manifest["cases"]:
        for case in range(entry["cases"]):
            yield entry["first"] + case * entry["rows"], entry["rows"]
