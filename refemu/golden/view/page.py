"""A page as one file: styles, data and script inside, nothing from the network."""

import json
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

LIMIT = 5_000_000  #: bytes of a page


def page(name: str, title: str, data: Mapping[str, Any]) -> bytes:
    """The page `name` of texts/, "step" or "set", in UTF-8, with its data as JSON that cannot end the HTML element."""
    document = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "@TITLE@": escape(title),
        "@STYLE@": _text("common.css"),
        "@SCRIPT@": _text("common.js") + _text(f"{name}.js"),
        "@DATA@": document,
    }
    whole = _text(f"{name}.html")
    for mark, part in parts.items():
        whole = whole.replace(mark, part)
    return whole.encode("utf-8", "replace")


def _text(name: str) -> str:
    return resources.files("refemu.golden.view").joinpath(f"texts/{name}").read_text("utf-8")
