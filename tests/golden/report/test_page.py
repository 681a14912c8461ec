"""The HTML page: one file, well-formed, escaped, without script or network."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from refemu.golden.report import page
from refemu.golden.report.regression import Regression, regression
from tests.golden.report.conftest import campaign

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Elements of a page; fails at one that is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def text(outcome: Regression) -> str:
    return page.text(outcome)


def test_the_page_is_well_formed_and_loads_nothing(text: str) -> None:
    read = Reader(text)
    tags = {tag for tag, _ in read.seen}

    assert not tags & {"script", "link", "img", "iframe", "object", "form"}
    assert not any(name.startswith("on") or name == "src" for _, attributes in read.seen for name in attributes)
    assert all(str(at["href"]).startswith("#") for _, at in read.seen if "href" in at)
    assert not re.search(r"url\(|@import|https?:", text)


def test_links_lead_to_a_set(text: str) -> None:
    read = Reader(text)
    ids = [attributes["id"] for _, attributes in read.seen if "id" in attributes]
    links = [str(attributes["href"])[1:] for _, attributes in read.seen if "href" in attributes]
    assert len(links) == 4 and sorted(links) == sorted(map(str, ids))


def test_values_are_escaped(text: str) -> None:
    """A saved set's test has a tag in its name."""
    assert "<script" not in text and "&lt;script&gt;alert" in text
    assert r"\x1b[31m\x00" in text and not re.search("[\x00-\x08\x0b-\x1f]", text)
    text.encode()


def test_both_colour_schemes_and_narrow_screens(text: str) -> None:
    assert "prefers-color-scheme: dark" in text and "max-width: 40rem" in text
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text and '<html lang="en">' in text


def test_page_shows_results_and_commands(text: str, outcome: Regression) -> None:
    words = " ".join(Reader(text).words)
    for part in ("FAIL", "4 sets: 1 pass, 3 fail", "diagnosis: row_shift explains", "44 of 56 rows differ", "196"):
        assert part in words, part
    for each in outcome.sets:
        for answer in each.answers:
            for command in answer.commands:
                assert re.sub(r"\s", "", command.run) in re.sub(r"\s", "", words)


def test_failing_sets_are_open(text: str) -> None:
    sets = {attributes["id"]: "open" in attributes for tag, attributes in Reader(text).seen if "id" in attributes}
    assert list(sets.values()) == [True, True, False, True]


def test_campaigns_logs_and_damage_are_shown(run: Path) -> None:
    campaign(run / "c")
    (run / "c" / "outlier_decoder-e2m1" / "random-00000000" / "vectors.npz").unlink()
    (run / "stray.log").write_text("FAIL 3 of 4 rows differ & <more>\n")
    words = " ".join(Reader(page.text(regression(run, "none"))).words)

    assert "1 of 1 shards are missing" in words and "vectors.npz is missing" in words
    assert "FAIL 3 of 4 rows differ & <more>" in words
