"""Markdown with links: names of decisions, pages and terms become links of the site."""

import re

from refemu.golden.pages import decisions, topics

#: last line of pages that may be large: a program writes them
GENERATED = "This page is generated."
_FENCE = re.compile(r"(^```.*?^```\s*?$)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`[^`\n]+`)")
_SVG = re.compile(r"\n```\{raw\} html\n((?:<\?xml(?:(?!\n```).)*)?<svg(?:(?!\n```).)*)\n```\n", re.DOTALL)
_ID = re.compile(r"(?<![\w\[#/-])D-[a-z]+-\d+(?![\w\]-])")
_PAGE = re.compile(r"`?\bdocs/(api|[a-z0-9-]+(?:\.md|/[a-z]+\.md))`?")
_LINK = re.compile(r"(?<=\]\()[a-z0-9-]+\.md(?=[)#])")
_SEE = re.compile(r"^See: (.+)\.$", re.MULTILINE)
#: pages of docs/ that the site shows in another form, with their variants
PAPERS = ("arith", "harmonia", "kllm", "leankv", "mix", "olive")
PLACES = {
    "decisions.md": "decisions/index.md",
    "api": "api/index.md",
    **{f"{kind}-{paper}.md": f"decisions/{paper}.md" for kind in ("decisions", "variants") for paper in PAPERS},
}


def linked(text: str) -> str:
    """Turn names of decisions and pages into links, except in code, headings and links."""
    parts = _FENCE.split(text)
    return "".join(part if number % 2 else _lines(part) for number, part in enumerate(parts))


def slug(word: str) -> str:
    """The anchor of a word: lower case, with dashes for other characters than letters and digits."""
    return re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")


def link(word: str) -> str:
    """A link to the entry of a word of `refemu explain`."""
    topic = topics.find(word)
    if topic.kind == "decision":
        return f"[{word}](#{slug(word)})"
    if topic.kind in ("parameter", "port", "field"):
        return f"[`{word}`](#{slug(f'{topic.of}-{topic.member}' if topic.kind == 'parameter' else f'unit-{topic.of}')})"
    prefix = {"unit": "unit", "format": "format", "scheme": "scheme", "term": "term"}[topic.kind]
    shown = word if topic.kind == "term" else f"`{word}`"
    return f"[{shown}](#{slug(f'{prefix}-{topic.of}')})"


def glossary(text: str) -> str:
    """The glossary with an anchor for every term, and links in `See:`."""
    text = re.sub(
        r"^### (.+)$", lambda match: f"({slug(f'term-{match[1]}')})=\n### {match[1]}", text, flags=re.MULTILINE
    )
    text = re.sub(r"^(Also: .+\.)$", r"*\1*\n", text, flags=re.MULTILINE)
    return _SEE.sub(lambda match: f"\nSee {', '.join(link(word.strip()) for word in match[1].split(','))}.", text)


def _lines(text: str) -> str:
    return "\n".join(line if line.startswith("#") else _line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    line = _LINK.sub(lambda match: f"/{PLACES[match[0]]}" if match[0] in PLACES else match[0], line)
    line = _PAGE.sub(lambda match: _page(match[1]), line)
    return "".join(part if number % 2 else _ID.sub(_decision, part) for number, part in enumerate(_CODE.split(line)))


def _page(name: str) -> str:
    return f"[{name.removesuffix('.md')}](/{PLACES.get(name, name)})"


def _decision(match: re.Match[str]) -> str:
    return f"[{match[0]}](#{slug(match[0])})" if match[0] in decisions.every() else match[0]


def pictures(page: str, name: str) -> dict[str, str]:
    """The page and its SVG drawings as files; images fit every width."""
    files: dict[str, str] = {}

    def linked_file(match: re.Match[str]) -> str:
        file = f"{name}-{len(files) + 1}.svg"
        files[file] = match[1]
        return f"\n![Plot]({file.rpartition('/')[2]})\n"

    return {f"{name}.md": _SVG.sub(linked_file, page)} | files


def cell(text: object) -> str:
    """Format text for a cell of a table."""
    return re.sub(r"(?<!\\)\|", r"\\|", re.sub(r"[ \t\n]+", " ", str(text)).strip())


def table(columns: list[str], rows: list[list[object]]) -> str:
    """Format a table; "" without rows."""
    if not rows:
        return ""
    lines = [columns, ["---"] * len(columns), *([cell(each) for each in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def code(text: object) -> str:
    """Format text as code; "" without text."""
    return f"`{text}`" if str(text) else ""


def prose(text: str) -> str:
    """Convert a docstring or a comment to Markdown: escape markup, link decisions."""
    parts = _CODE.split(text)
    return linked("".join(part if number % 2 else _escaped(part) for number, part in enumerate(parts)))


def _escaped(text: str) -> str:
    return re.sub(r"([*_<>\[\]\\])", r"\\\1", text)
