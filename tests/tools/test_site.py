"""The documentation: names become links, pages say what descriptors say, broken links and large pages are seen."""

import re
from pathlib import Path

import pytest

from refemu import formats, units
from tools.site import decisions, links, text
from tools.site import formats as format_pages
from tools.site import units as unit_pages

ROOT = Path(__file__).parents[2]


def test_names_become_links_outside_code() -> None:
    line = (
        "D-olive-19 is in docs/decisions.md; `D-olive-19`, D-olive-99999 and [D-olive-19](x) stay; see `docs/fp16-p.md`"
    )
    assert text.linked(line) == (
        "[D-olive-19](#d-olive-19) is in [decisions](/decisions/index.md); `D-olive-19`, D-olive-99999 and "
        "[D-olive-19](x) stay; see [fp16-p](/fp16-p.md)"
    )
    assert text.linked("[a](decisions-olive.md), [b](variants-olive.md#c), [d](claims.md)") == (
        "[a](/decisions/olive.md), [b](/decisions/olive.md#c), [d](claims.md)"
    )
    assert text.linked("```\nD-olive-19\n```\n") == "```\nD-olive-19\n```\n"
    assert text.linked("# D-olive-19") == "# D-olive-19"


def test_words_of_the_glossary_lead_to_their_pages() -> None:
    page = text.glossary("### victim\nText.\nSee: D-olive-19, ovp_decoder, OVP_INT4, harmonia-kv4.low, outlier.\n")
    assert "(term-victim)=\n### victim" in page
    for anchor in ("#d-olive-19", "#unit-ovp-decoder", "#format-ovp-int4", "#harmonia-kv4-low", "#term-outlier"):
        assert f"({anchor})" in page


def test_markup_of_a_docstring_is_text() -> None:
    assert text.prose("<a, b> is a*b, `a*b` (D-olive-19)") == r"\<a, b\> is a\*b, `a*b` ([D-olive-19](#d-olive-19))"


def test_unit_page_has_all_of_its_descriptor() -> None:
    written = unit_pages.page(units.find("orizuru"))
    page = written["units/orizuru.md"]
    assert written["units/orizuru.svg"].startswith("<svg")
    for port in units.find("orizuru").ports(units.find("orizuru").configs["n8"]).all:
        assert f"`{port.name}`" in page
    assert "| `n` | needed |" in page and "`n=8`" in page and "[D-kllm-" in page
    assert "| 0 | load | 3\u00a07\u00a01\u00a05\u00a02\u00a06\u00a09\u00a04 |" in page
    assert "automodule:: refemu.units.kllm.orizuru" in page
    assert "| `cycles` | counter | sum |" in page and "combinational: a row is one call" in page


def test_a_page_of_a_format() -> None:
    written = format_pages.page("OVP_INT4", formats.OVP_INT4)
    assert written["formats/OVP_INT4.svg"].startswith("<svg")
    page = written["formats/OVP_INT4.md"]
    assert "| 0x85 | 10000101 |" in page and "[D-olive-5](#d-olive-5)" in page
    assert "fp32, accumulated significance" in format_pages.page("K8V4", formats.K8V4)["formats/K8V4.md"]


def test_pages_of_decisions_have_every_entry() -> None:
    pages = decisions.pages()
    whole = "".join(pages.values())
    from refemu.golden.pages.decisions import every

    for id, entry in every().items():
        assert f"({text.slug(id)})=\n## {id}: {entry.title}" in whole
        assert f"`{entry.test}`" in whole


def test_page_of_validation_names_each_conformance_test_with_its_units() -> None:
    """A unit is in the row of a test that compares it with an outside program, and a file in one row or in the text."""
    page = (ROOT / "docs" / "what-validates-what.md").read_text()
    for path in (ROOT / "tests" / "conformance").glob("test_*.py"):
        rows = [line for line in page.splitlines() if f"`{path.name}`" in line]
        imported = {name for name in units.names() if re.search(rf"\bimport\b.*\b{name}\b", path.read_text())}
        named = {name for name in units.names() if any(f"`{name}`" in row for row in rows)}
        assert len(rows) == 1 and (named == imported or not rows[0].startswith("|")), path.name


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ("b.html", None),
        ("b.html#there", None),
        ("#here", None),
        ("https://example.org", None),
        ("c.html", "a.html: c.html: no such file"),
        ("b.html#gone", "a.html: b.html#gone: no such anchor"),
        ("#gone", "a.html: #gone: no such anchor"),
    ],
)
def test_a_broken_link_is_seen(link: str, complaint: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f'<p id="here"><a href="{link}">x</a></p>')
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    assert list(links.broken(tmp_path)) == ([complaint] if complaint else [])


def test_a_large_page_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("x" * 11)
    assert list(links.large(tmp_path, 10)) == ["a.html: 11 bytes, 10 at most"]
    assert list(links.large(tmp_path, 11)) == []
