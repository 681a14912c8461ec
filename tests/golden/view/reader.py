"""Pages read back: their data, and the states in a stream."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "br", "wbr", "link", "img"}


class Checker(HTMLParser):
    """Requires that tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open += [] if tag in VOID else [tag]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: bytes) -> dict[str, Any]:
    """The data of a page, which must be well-formed, need no network and have text alternatives."""
    text = page.decode()
    checker = Checker()
    checker.feed(text)
    assert checker.open == [] and len(checker.ids) == len(set(checker.ids))
    script = text[text.index("<script>") :]
    assert set(re.findall(r'\bid\("(\w+)"\)', script)) <= set(checker.ids)
    for word in ("fetch(", "XMLHttpRequest", "import(", "url(", "@import", "<link", "<img", "src="):
        assert word not in text
    assert set(re.findall(r"https?://[^\s\"'<\\]*", text)) <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text and '<html lang="en">' in text and "prefers-color-scheme: dark" in text
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return dict(json.loads(data))


def inflated(text: str) -> bytes:
    """Bytes of a stream of a page."""
    return zlib.decompress(base64.b64decode(text), wbits=-15)


def states(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Event, operation and lanes of every member, after every event of a stepper's page."""
    stream, at, found = inflated(data["stream"]), 0, []
    state = bytearray(data["size"])

    def varint() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = stream[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    for _ in range(data["events"]):
        name, operation, place = varint(), varint(), 0
        for _ in range(varint()):
            place += varint()
            for _ in range(varint()):
                state[place] ^= stream[at]
                place, at = place + 1, at + 1
        found.append({"event": data["names"][name], "operation": operation, **_values(data, state)})
    assert at == len(stream)
    return found


def _values(data: dict[str, Any], state: bytearray) -> dict[str, Any]:
    values = {}
    for field in data["fields"]:
        count = field["bits"] * field["lanes"]
        word = int.from_bytes(state[field["first"] : field["first"] + -(-count // 8)], "little")
        lanes = [word >> field["bits"] * lane & (1 << field["bits"]) - 1 for lane in range(field["lanes"])]
        if field["signed"]:
            lanes = [lane - (lane >> field["bits"] - 1 << field["bits"]) for lane in lanes]
        values[field["name"]] = [data["texts"][lane] for lane in lanes] if field["text"] else lanes
    return values


def pictures(data: dict[str, Any]) -> list[str]:
    """The drawings of a stepper's page."""
    found: list[list[str]] = []
    for frame in json.loads(inflated(data["pictures"])):
        lines = frame if isinstance(frame, list) else list(found[-1])
        if isinstance(frame, dict):
            for at, line in frame.items():
                lines[int(at)] = line
        found.append(lines)
    return ["\n".join(lines) for lines in found]
