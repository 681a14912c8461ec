"""Rules of pages: links of docs; decisions in docs, code and tests; claims of the papers."""

import ast
import posixpath
import re
from collections.abc import Iterator

from tools.rules.house import House, Place, rule

DECISIONS = "docs/decisions.md"
ID = re.compile(r"D-[a-z]+-\d+")
ENTRY = re.compile(r"^### (D-[a-z]+-\d+) (.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
PIN = re.compile(r"^Pinned by `(tests/[\w/]+\.py)::(test_\w+)`\.$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
CLAIMS = "docs/claims.md"
CLAIMED = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
MODELS, SPREAD = (
    "SmolLM2|MiniLM|normal data",
    r"±|\d to \d|no spread",
)  #: words of refemu's numbers, none of a paper's model
#: pattern of refemu's cell of a claim, by `verdict`
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


@rule("document it in docs/decisions.md, mark it in refemu, and name one test that asserts it")
def decision(house: House) -> Iterator[Place]:
    """Docs and code have the same decisions, and each entry has a test that names it."""
    page = house.texts.get(DECISIONS, "")
    entries = {entry[1]: (page.count("\n", 0, entry.start()) + 1, entry[2]) for entry in ENTRY.finditer(page)}
    uses: dict[str, Place] = {}
    for module in house.modules.values():
        for number, line in enumerate(module.lines, 1):
            for name in ID.findall(line) if "D-" in line else ():
                uses.setdefault(name, (module.path, number, f"{name} is not documented"))
    yield from (place for name, place in uses.items() if name not in entries)
    for name, (line, text) in entries.items():
        if name not in uses:
            yield DECISIONS, line, f"{name} is not in the code"
        if why := _pin(house, name, text):
            yield DECISIONS, line, f"{name} {why}"


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


@rule("give it five cells: claim, place, `verdict`, text that fits (`OUTCOMES` of tools/rules/pages.py), a test")
def claim(house: House) -> Iterator[Place]:
    """Rows of docs/claims.md have the text for their `verdict`, each claim once, and name existing tests."""
    table, claims = False, set[str]()
    page = house.texts.get(CLAIMS, "")
    if page and {*re.findall(r"^- \*\*(.*)\*\*:", page.split("\n## ")[0], re.MULTILINE)} != OUTCOMES.keys():
        yield CLAIMS, 1, f"each `verdict` must be one of {', '.join(OUTCOMES)}"
    for number, line in enumerate(page.splitlines(), 1):
        for path, test in CLAIMED.findall(line):
            if not test.startswith("test_") or f"\ndef {test}(" not in house.texts.get(path, ""):
                yield CLAIMS, number, f"no test {path}::{test}"
        if table and line.startswith("| "):
            cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
            known = len(cells) == 5 and re.match(OUTCOMES.get(cells[2], "(?!)"), cells[3])
            tested = "::test_" in cells[-1] or cells[2:] == ["not checkable", cells[-2], "none"]
            if not known or not tested or cells[0] in claims:
                yield CLAIMS, number, f"row of {cells[0]!r}"
            claims.add(cells[0])
        table = line == "| claim | place | verdict | refemu | test |" or (table and line.startswith("|"))
