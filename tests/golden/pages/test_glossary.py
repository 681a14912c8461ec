"""The glossary is complete: every reference has an entry, and no word has two meanings."""

import collections
from pathlib import Path

import pytest

from refemu.golden.pages import glossary, topics

ROOT = Path(__file__).parents[3]
#: words of which a stranger said that no page explains them
ASKED = (
    *("victim", "abfloat", "flint", "tap", "compiled", "oracle", "case", "row", "decision", "preset", "quirk", "group"),
    *("prefill", "window", "perplexity", "pair", "page", "token significance", "care mask", "REFEMU_CACHE"),
)


def test_every_heading_is_a_term() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    assert len(glossary.every()) == text.count("\n### ") > 70
    for term in glossary.every().values():
        assert len(term.text) > 30 and "###" not in term.text and "See:" not in term.text, term.name
        assert term.text.endswith("."), term.name


def test_references_name_existing_entries() -> None:
    assert [
        name for name, term in glossary.every().items() if name in [topics.find(word).of for word in term.see]
    ] == []


def test_no_word_has_two_meanings() -> None:
    counts = collections.Counter(word.lower() for word in topics.words())
    assert [word for word, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("word", ASKED)
def test_common_words_have_entries(word: str) -> None:
    assert topics.find(word).kind == "term"
