"""Check the English of pages, docstrings, comments, messages and test names.

    python -m tools.prose                  # all pages and modules; exit code 1 if a rule is broken
    python -m tools.prose docs/waivers.md  # other files or folders
    python -m tools.prose --count          # a table for the whole repository: findings by rule and place

A line for each finding: `path:line: rule N: 'word': advice`. Code, links and names in backticks are not read.
tools/prose.toml has the rules of words, and exceptions. Rule 13 is about sentences:
at most 45 words, and 20 on average over a page. Rule 22: code in a page has at most 80 columns.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST, MEAN, COLUMNS = 45, 20, 80  #: words of a sentence, words on average over a page, columns of code
SETTINGS = tomllib.loads((ROOT / "tools" / "prose.toml").read_text("utf-8"))
#: number of a rule, the words that break it, and what to write; a space is any white space
RULES = [
    (rule["number"], re.compile(rf"\b(?:{rule['words']})\b".replace(" ", r"\s+"), re.IGNORECASE), rule["write"])
    for rule in SETTINGS["rule"]
]
_FENCE = re.compile(r"^ *(```+).*?^ *\1`*\s*?$", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(
    r"<!--.*?-->|^(?:See|Also): .*?$|^\[[^\]]+\]: .*?$|(?<=\])(\([^)\s]*\)|\[[^\]]*\])", re.MULTILINE | re.DOTALL
)
_SPAN = re.compile(r"`+[^`]+`+|https?://\S+")
_TABLE = re.compile(r"^ *(\||#|:).*$|^ *([-*]|\d+\.) ", re.MULTILINE)
_END = re.compile(r"(?<!Fig)(?<!al)(?<!e\.g)(?<!i\.e)[.!?][\"*)]*\s+(?=[\"*(\[]*(?:[A-Z]|refemu\b))|\n\s*\n|\0")
_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*)"
    r"|(?:\b(?P<kind>[rbfRBF]{1,2}))?(?P<quote>\"{3}|'{3})(?P<long>.*?)(?<!\\)(?P=quote)"
    r"|(?:\"(?P<double>(?:\\.|[^\"\\\n])*)\"|'(?P<single>(?:\\.|[^'\\\n])*)')"
    r"|\bdef (?P<test>test_\w+)",
    re.DOTALL,
)
_DOCTEST = re.compile(r"^ *(>>>|\.\.\.) .*$|\{[^{}]*\}", re.MULTILINE)
_PROSE = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")


@dataclass(frozen=True)
class Finding:
    """A broken rule at a line of a file."""

    path: str
    line: int
    rule: int
    words: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: rule {self.rule}: {self.words!r}: {self.advice}"


def prose(path: str, text: str) -> str:
    """Text of the same length in which all characters are blank that no reader reads as English."""
    return _page(text) if path.endswith(".md") else _module(text, is_test=path.startswith("tests/"))


def findings(path: str, text: str) -> Iterator[Finding]:
    """Yield what breaks a rule, in the order of the rules."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    english = prose(path, text)
    for number, pattern, advice in RULES:
        for match in pattern.finditer(english):
            words = " ".join(match[0].split())
            yield Finding(path, bisect_right(starts, match.start()), number, words, f"write {advice}")
    if not path.endswith(".md"):
        return
    lengths = []
    for start, sentence in sentences(english):
        lengths.append(len(sentence.split()))
        if lengths[-1] > LONGEST:
            words = " ".join(sentence.split()[:5])
            advice = f"a sentence of {lengths[-1]} words, {LONGEST} at most"
            yield Finding(path, bisect_right(starts, start), 13, words, advice)
    if lengths and sum(lengths) > MEAN * len(lengths):
        advice = f"{sum(lengths) / len(lengths):.1f} words a sentence on average, {MEAN} at most"
        yield Finding(path, 1, 13, "the page", advice)
    for block in _FENCE.finditer(text):
        for line, code in enumerate(block[0].split("\n"), bisect_right(starts, block.start())):
            if len(code) > COLUMNS:
                yield Finding(path, line, 22, code.strip()[:20], f"{len(code)} columns of code, {COLUMNS} at most")


def sentences(english: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a page, each with its offset; tables and headings have none."""
    english = _TABLE.sub(lambda match: "\0" + " " * (len(match[0]) - 1), english)
    start = 0
    for end in [*(match.end() for match in _END.finditer(english)), len(english)]:
        sentence = english[start:end].replace("\0", " ")
        if re.search(r"\w", sentence):
            yield start + len(sentence) - len(sentence.lstrip()), sentence
        start = end


def _blank(text: str, word: str = "") -> str:
    """White space of the same form, after a replacement word."""
    return word + re.sub(r"[^\n]", " ", text)[len(word) :]


def _page(text: str) -> str:
    text = _FENCE.sub(lambda match: _blank(match[0]), text)
    text = _SPAN.sub(lambda match: _blank(match[0], "X"), text)
    return _MARKUP.sub(lambda match: _blank(match[0]), text)


def _module(text: str, *, is_test: bool) -> str:
    """Comments, docstrings, names of tests, and in other files strings of several words."""
    parts, place = [], 0
    for token in _TOKEN.finditer(text):
        group = token.lastgroup or ""
        if group != "test" and is_test and group in ("double", "single"):
            continue
        content = token[group].replace("_", " ") if group == "test" else token[group]
        if group in ("double", "single", "long") and not _PROSE.search(content):
            continue
        content = _DOCTEST.sub(lambda match: _blank(match[0], "X"), content)
        parts += [_blank(text[place : token.start(group)]), _SPAN.sub(lambda match: _blank(match[0], "X"), content)]
        place = token.end(group)
    return "".join([*parts, _blank(text[place:])])


def files(places: Iterable[str]) -> list[str]:
    """Pages and modules in git below some places, but for generated ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *places]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        name
        for name in listed
        if name.endswith((".md", ".py"))
        and not name.startswith(("docs/api/", "docs/measurements.md", "docs/variants-", "vectors/"))
        and not (ROOT / name).is_symlink()
    ]


def check(paths: Iterable[str], exceptions: Iterable[dict[str, str]]) -> Iterator[str]:
    """Yield a line for each finding of the paths, and for each exception of theirs that nothing needs."""
    paths = list(paths)
    unused = [exception for exception in exceptions if exception["place"] in paths]
    needed = []
    for path in paths:
        text = (ROOT / path).read_text("utf-8")
        lines = text.split("\n")
        for finding in findings(path, text):
            excused = [
                each
                for each in unused
                if each["place"] == path
                and int(each["rule"]) == finding.rule
                and each["text"] in lines[finding.line - 1]
            ]
            needed += excused
            if not excused:
                yield str(finding)
    for exception in unused:
        if exception not in needed:
            yield f"tools/prose.toml: {exception['place']}: {exception['text']!r}: not needed, remove it"


def table(paths: Iterable[str]) -> Iterator[str]:
    """Yield lines of findings by place and rule, in all and for 1,000 words."""
    numbers = [number for number, *_ in RULES] + [13, 22]
    words: Counter[str] = Counter()
    counts: Counter[tuple[str, int]] = Counter()
    for path in paths:
        text = (ROOT / path).read_text("utf-8")
        folder = path if path.endswith(".md") else "/".join(path.split("/")[:-1][:2])
        for place in (folder, "all"):
            words[place] += len(re.findall(r"[A-Za-z]+", prose(path, text)))
        for finding in findings(path, text):
            for place in (folder, "all"):
                counts[place, finding.rule] += 1
    yield f"{'place':<40}{'words':>8}{'/1000':>7}" + "".join(f"{number:>6}" for number in numbers)
    for place in sorted(words, key=lambda place: (place == "all", place)):
        row = [counts[place, number] for number in numbers]
        yield f"{place:<40}{words[place]:>8}{1000 * sum(row) / max(words[place], 1):>7.1f}" + "".join(
            f"{count or '':>6}" for count in row
        )


def main() -> int:
    """Check places or count; returns the exit code."""
    options = argparse.ArgumentParser(prog="python -m tools.prose", description="Check the English of the repository.")
    options.add_argument("--count", action="store_true", help="print a table of findings by place and rule")
    options.add_argument("path", nargs="*", help="files or folders; default those of tools/prose.toml")
    arguments = options.parse_args()
    if arguments.count:
        print("\n".join(table(files(arguments.path or ["."]))))
        return 0
    wrong = list(check(files(arguments.path or ["."]), SETTINGS.get("exception", [])))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
