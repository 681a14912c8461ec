"""Commands show the decisions of docs/."""

from pathlib import Path

import pytest

from refemu import units
from refemu.arith.checks import Refused
from refemu.golden.pages import decisions
from refemu.golden.pages.packaged_text import pages
from tools.rules.pages import ENTRY

ROOT = Path(__file__).parents[3]
TEXTS = ROOT / "refemu" / "golden" / "pages" / "texts"


def test_pages_are_those_of_docs() -> None:
    """One file under two names."""
    names = sorted(path.name for path in TEXTS.iterdir())
    kinds = ("decisions-*.md", "variants-*.md", "glossary.md", "diagnosis.md")
    assert names == sorted(path.name for kind in kinds for path in (ROOT / "docs").glob(kind))
    for name in names:
        assert (TEXTS / name).read_bytes() == (ROOT / "docs" / name).read_bytes()
        assert (TEXTS / name).resolve() == ROOT / "docs" / name


def test_every_entry_is_read_completely() -> None:
    every, documented = decisions.every(), dict(ENTRY.findall(pages("decisions-")))
    assert set(every) == set(documented)
    for id, entry in every.items():
        assert entry.id == id and entry.title and len(entry.text) > 10, id
        assert "Pinned by" not in entry.text and "###" not in entry.text, id
        words = f"{entry.title}{entry.text}Pinned by `{entry.test}`.".split()
        assert "".join(words) == "".join(documented[id].split()), id


def test_every_row_of_variants_is_read() -> None:
    text = pages("variants-")
    rows = sum(line.startswith("| D-") for line in text.splitlines())
    reasons = sum(decisions.ID.match(line) is not None for line in text.splitlines())
    every = decisions.every().values()

    assert sum(len(entry.variants) for entry in every) == rows > 300
    assert sum(len(entry.unobservable) for entry in every) == reasons > 10
    assert {each.unit for entry in every for each in entry.variants} <= set(units.names())


def test_entry_has_text_test_and_variants() -> None:
    entry = decisions.find("D-olive-19")
    assert entry.title == "Exponent of a victim and of the reserved outlier code"
    assert {each.unit for each in entry.variants} == {"outlier_decoder", "ovp_decoder"}
    assert entry.test.endswith("::test_illegal_pairs_are_flagged_and_follow_the_equations")


def test_unknown_decision_is_rejected_with_the_nearest() -> None:
    with pytest.raises(Refused, match="unknown decision 'D-klm-27'; did you mean 'D-kllm-27'"):
        decisions.find("D-klm-27")
