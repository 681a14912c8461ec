"""Excerpts in the results of the search when pages are opened from the file system.

The script of Sphinx fetches each page that it finds, which browsers allow on a server only. `_static/excerpts.js` has
the texts of all pages and answers for them; only the page of the search loads it, from a file only.
"""

import json
from html.parser import HTMLParser
from pathlib import Path

NAME = "_static/excerpts.js"
_VOID = frozenset(("area", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"))
_ANSWER = """
const real = window.fetch, root = new URL("..", document.currentScript.src).href;
if (location.protocol === "file:") window.fetch = (address, ...more) => {
  const path = decodeURI(new URL(address, location).href.split(/[?#]/)[0]);
  const text = texts[path.slice(decodeURI(root).length)];
  if (text === undefined) return real(address, ...more);
  const page = document.createElement("div");
  page.setAttribute("role", "main");
  page.textContent = text;
  return Promise.resolve(new Response(page.outerHTML));
};
"""


class _Main(HTMLParser):
    """Text of the main part of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID and (self.depth or dict(attrs).get("role") == "main"):
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= bool(self.depth)

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.parts.append(data)


def text(page: str) -> str:
    """The words of the main part of a page."""
    reader = _Main()
    reader.feed(page)
    return " ".join("".join(reader.parts).replace("¶", " ").split())


def write(root: Path) -> None:
    """Write the script, and load it in the page of the search."""
    pages = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.relative_to(root).parts]
    texts = {path.relative_to(root).as_posix(): text(path.read_text("utf-8")) for path in pages}
    (root / NAME).write_text(f"const texts = {json.dumps(texts)};{_ANSWER}")
    search = root / "search.html"
    page = search.read_text("utf-8")
    search.write_text(page.replace("</head>", f'<script src="{NAME}"></script></head>', 1), "utf-8")
