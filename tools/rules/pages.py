"""Rules of pages: links of docs; decisions in docs, code and tests; claims of the papers."""

import ast
import posixpath
import re
from collections.abc import Iterator

from tools.rules.house import House, Place, rule

DECISIONS = "docs/decisions-"  #: pages begin with it
ID = re.compile(r"D-[a-z]+-\d+")
ENTRY = re.compile(r"^### (D-[a-z]+-\d+) (.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
PIN = re.compile(r"^Pinned by `(tests/[\w/]+\.py)::(test_\w+)`\.$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
HEADER = re.compile(r"(?<![^\n]\|\n)^\|.*\n(?!\|[ :|-]+\|$)", re.MULTILINE)  #: first line of a table without dashes
CLAIMS = "docs/claims.md"
CLAIMED = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
#: of refemu's figures, none of a paper's model; for cycles, its sizes
MODELS, SPREAD = "SmolLM2|MiniLM|normal data|sizes of ", r"±|\d to \d|no spread"
#: what refemu's cell of a claim says, by result
OUTCOMES = {
    "reproduced": "(?!Factor: |Missing: )",
    "same order": f"(?!Factor: |Missing: )(?=.*({MODELS}))(?=.*({SPREAD}))",
    "explained in part": r"Factor: \d",
    "contradicted": f"(?!Factor: |Missing: )(?!.*({MODELS}))",
    "not checkable": r"Missing: \w",
}


@rule("name an existing file")
def link(house: House) -> Iterator[Place]:
    """Links of a docs page lead to files; the index, the front page of the site, has further pages."""
    for path, text in house.texts.items():
        if not path.startswith("docs/") or path == "docs/index.md":
            continue
        plain = CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
        for match in LINK.finditer(plain):
            target = posixpath.normpath(f"{path}/../{match[1]}")
            there = target in house.texts or (house.root is not None and (house.root / target).exists())
            if "://" not in match[1] and not there:
                yield path, plain.count("\n", 0, match.start()) + 1, f"link to {match[1]}"


@rule("put a line of dashes, such as |---|---|, under the header")
def table(house: House) -> Iterator[Place]:
    """Tables of a docs page have a line of dashes under the header; without it they are shown as one paragraph."""
    for path, text in house.texts.items():
        plain = CODE.sub(lambda code: "\n" * code[0].count("\n") or "code", text)
        for header in HEADER.finditer(plain) if path.startswith("docs/") else ():
            yield path, plain.count("\n", 0, header.start()) + 1, "table"


@rule("document it in docs/decisions-PAPER.md, take it in refemu, and name one test that asserts it")
def decision(house: House) -> Iterator[Place]:
    """Docs and code name the same decisions, and each entry a test that names it."""
    entries = {
        entry[1]: (path, page.count("\n", 0, entry.start()) + 1, entry[2])
        for path, page in house.texts.items()
        if path.startswith(DECISIONS)
        for entry in ENTRY.finditer(page)
    }
    uses: dict[str, Place] = {}
    for module in house.modules.values():
        for number, line in enumerate(module.lines, 1):
            for name in ID.findall(line) if "D-" in line else ():
                uses.setdefault(name, (module.path, number, f"{name} is not documented"))
    yield from (place for name, place in uses.items() if name not in entries)
    for name, (path, line, text) in entries.items():
        if name not in uses:
            yield path, line, f"{name} is not in the code"
        if why := _pin(house, name, text):
            yield path, line, f"{name} {why}"


def _pin(house: House, name: str, entry: str) -> str:
    """Error in the test that an entry names, or ""."""
    pins = PIN.findall(entry)
    if len(pins) != 1:
        return "must name one test: Pinned by `tests/...::test_...`."
    path, test = pins[0]
    for node in ast.parse(house.texts.get(path, "")).body:
        if isinstance(node, ast.FunctionDef) and node.name == test:
            inner = (part for each in (node, *node.decorator_list) for part in ast.walk(each))
            texts = [part.value for part in inner if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            return "" if name in ID.findall(" ".join(texts)) else f"is not named in {path}::{test}"
    return f"is pinned by {path}::{test}, which does not exist"


@rule("give it a number, claim, place, result, what the result needs (OUTCOMES of tools/rules/pages.py), listed tests")
def claim(house: House) -> Iterator[Place]:
    """Rows of docs/claims-*.md have what their result needs, each claim once, and name tests that exist."""
    index, claims = house.texts.get(CLAIMS, ""), set[str]()
    if index and {*re.findall(r"^- \*\*(.*)\*\*:", index, re.MULTILINE)} != OUTCOMES.keys():
        yield CLAIMS, 1, f"the page lists other results than {', '.join(OUTCOMES)}"
    pages = {path: page for path, page in house.texts.items() if path.startswith("docs/claims-")}
    for path, page in pages.items():
        table, results, tested = False, list[str](), {*re.findall(r"^- (\d+): `tests/", page, re.MULTILINE)}
        for number, line in enumerate(page.splitlines(), 1):
            for file, test in CLAIMED.findall(line):
                if not test.startswith("test_") or f"\ndef {test}(" not in house.texts.get(file, ""):
                    yield path, number, f"no test {file}::{test}"
            if table and line.startswith("| "):
                row, name, _, result, text, *more = [*line.strip("| ").split(" | "), *[""] * 5][:6]
                results.append(result)
                known = re.match(OUTCOMES.get(result, "(?!)"), text) and not any(more) and row == str(len(results))
                if not known or name in claims or (row not in tested and result != "not checkable"):
                    yield path, number, f"row of {name!r}"
                claims.add(name)
                tested.discard(row)
            table = line == "| row | claim | place | result | refemu |" or (table and line.startswith("|"))
        counts = " | ".join(str(results.count(result)) for result in OUTCOMES)
        if tested:
            yield path, 1, f"tests of rows that are not there: {', '.join(sorted(tested))}"
        if results and f" | {counts} |" not in index:
            yield path, 1, f"{CLAIMS} does not have its counts, {counts}"
