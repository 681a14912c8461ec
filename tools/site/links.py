"""Checks of a built site: links lead to a file and to an anchor in it, and no page is too large."""

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.site.text import GENERATED


class _Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect links and anchors."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values[name] for name in ("href", "src") if name in values]


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def broken(root: Path, missing: str = "") -> Iterator[str]:
    """Yield broken links of the pages in `root`. missing: links that contain it are not checked."""
    for path in sorted(root.rglob("*.html")):
        if "_static" in path.relative_to(root).parts:
            continue
        for link in _read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or (missing and missing in link):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{path.relative_to(root)}: {link}: no such file"
            elif _has_anchors(target, parts.fragment) and unquote(parts.fragment) not in _read(target).anchors:
                yield f"{path.relative_to(root)}: {link}: no such anchor"


def _has_anchors(target: Path, fragment: str) -> bool:
    """Whether a fragment names an anchor; pages that step through units read it in a script."""
    return bool(fragment) and target.suffix == ".html" and "_static" not in target.parts


def large(root: Path, most: int) -> Iterator[str]:
    """Yield pages of more than `most` bytes that do not say that they are generated."""
    for path in sorted(root.rglob("*.html")):
        if "_static" in path.relative_to(root).parts:
            continue
        if path.stat().st_size > most and f"<p>{GENERATED}</p>" not in path.read_text("utf-8"):
            yield f"{path.relative_to(root)}: {path.stat().st_size:,} bytes, of at most {most:,}"
