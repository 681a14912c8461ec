"""The glossary is complete: every reference has an entry, and no word has two meanings."""

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import formats
from refemu.golden.pages import glossary, topics

ROOT = Path(__file__).parents[3]
#: words that a reader missed, and words of the output of commands
ASKED = (
    *("victim", "abfloat", "flint", "tap", "compiled", "oracle", "case", "row", "decision", "preset", "quirk", "group"),
    *("prefill", "window", "perplexity", "pair", "page", "token significance", "care mask", "REFEMU_CACHE"),
    *("fault", "detected", "missed", "equivalent", "untested", "coverage", "set", "lane", "transaction", "port map"),
    *("wrapper", "latency", "handshake", "variant", "standard error", "significant", "zero point", "stimulus", "flag"),
    *("mutant", "waiver", "campaign", "shard", "ILLEGAL", "UNSPECIFIED", "diagnosis", "digest", "device", "testbench"),
)


def test_every_heading_is_a_term() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    assert sum(f"\n### {name}\n" in text for name in glossary.every()) == text.count("\n### ") > 70
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
def test_asked_word_is_a_term(word: str) -> None:
    assert topics.find(word).kind == "term"


def ids_of_hypotheses() -> list[str]:
    """Ids of the table of docs/diagnosis.md, one or several in a cell."""
    rows = [line for line in (ROOT / "docs" / "diagnosis.md").read_text().splitlines() if line.startswith("| `")]
    return [word for row in rows for word in row.split("|")[1].replace("`", "").replace(" ", "").split(",")]


def test_hypotheses_are_explained() -> None:
    ids = [word for word in ids_of_hypotheses() if not word.endswith("...")]
    assert {"row_shift", "nibble_swap", "reset", "parameter"} <= set(ids)
    texts = {word: glossary.every()[topics.find(word).of].text for word in ids}
    assert {word: text for word, text in texts.items() if f"`{word}`: the design " not in text} == {}
    assert "has bytes or nibbles in another order" in texts["nibble_swap"]
    assert texts["rounding"].startswith(glossary.every()["rounding"].text[:30])


def test_fault_is_explained() -> None:
    term = glossary.every()[topics.find("F-leankv-3").of]
    assert "scale and zero point are exchanged" in term.text and term.see[0] == "page_reader"


@pytest.mark.parametrize(("stored", "sign"), [("neg_min", -1), ("min", 1)])
def test_zero_point_of_leankv_is_as_described(stored: Any, sign: int) -> None:
    group = formats.Affine(8, 1, stored).encode(np.array([1.0, 2.5, 7.0, 4.0], np.float16))
    scale, zero = (words.view(np.float16).astype(np.float32) for words in (group.scale, group.zero))
    assert zero == sign
    np.testing.assert_array_equal(group.dequantize(), group.code * scale + sign * zero)


def test_zero_point_of_kllm_is_as_described() -> None:
    book = formats.Codebook(1, np.array([-1, 1], np.float16).view(np.uint16))
    tensor = formats.KMeans(book, zero_point=True).encode(np.array([1.0, 3.0], np.float16))
    assert tensor.zero is not None
    scale, zero = (float(words.view(np.float16)) for words in (tensor.scale, tensor.zero))
    assert (scale, zero) == (1, -2)
    assert tensor.dequantize().tolist() == [(centroid - zero) * scale for centroid in (-1, 1)]
