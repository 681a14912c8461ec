"""Pages of decisions: text, test, the code that takes each, and variants with the sets that detect them."""

import re
from collections.abc import Iterator
from pathlib import Path

from refemu.cli.explain_names import parameters_of_decision
from refemu.golden.pages import decisions, places
from refemu.golden.pages.packaged_text import page
from tools.site.text import GENERATED, PAPERS, code, link, linked, slug, table

ROOT = Path(__file__).resolve().parents[2]
_ENTRY = re.compile(r"^### (D-[a-z]+-\d+) ", re.MULTILINE)


def pages() -> dict[str, str]:
    """Pages by name: an index, and one for each page docs/decisions-*.md."""
    head = (ROOT / "docs" / "decisions.md").read_text("utf-8")
    sections = {paper: page(f"decisions-{paper}.md") for paper in PAPERS}
    ids = {paper: _ENTRY.findall(text) for paper, text in sections.items()}
    tree = "\n".join(PAPERS)
    rows: list[list[object]] = [
        [f"[{id}](#{slug(id)})", decisions.find(id).title, len(decisions.find(id).variants)]
        for paper in PAPERS
        for id in ids[paper]
    ]
    listed = table(["id", "decision", "variants"], rows)
    index = f"{linked(head)}\n\n```{{toctree}}\n:maxdepth: 1\n{tree}\n```\n\n{listed}"
    written = {f"decisions/{paper}.md": _page(text, ids[paper]) for paper, text in sections.items()}
    return {"decisions/index.md": index, **written}


def _page(text: str, ids: list[str]) -> str:
    return "\n".join([linked(text.split("\n### ")[0]), "", *("\n".join(_entry(id)) for id in ids), GENERATED, ""])


def _entry(id: str) -> Iterator[str]:
    entry = decisions.find(id)
    yield f"({slug(id)})=\n## {id}: {entry.title}\n\n{linked(entry.text)}\n"
    rows: list[list[object]] = [
        [link(each.unit), each.says.replace("|", "\\|"), code(each.set), each.rows] for each in entry.variants
    ]
    yield table(["unit", "variant", "committed set that detects it best", "rows that differ"], rows)
    for unit, reason in entry.unobservable.items():
        yield f"{link(unit)}: no variant can be observed: {linked(reason)}\n"
    taken = [f"`{place.file}` {code(place.name)}".strip() for place in places.of_decision(id)]
    yield f"- Implemented in {'; '.join(taken)}"
    names = parameters_of_decision(id)
    if names:
        yield f"- Set by {', '.join(link(name) for name in names)}"
    yield f"- Pinned by `{entry.test}`"
    yield f"- Offline: `refemu explain {id}`\n"
