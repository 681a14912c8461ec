"""The documentation site: links, generated pages, searches, sizes and layout."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refemu import formats, units
from tools.site import decisions, excerpts, fit, links, text
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


def test_words_of_glossary_are_linked() -> None:
    page = text.glossary("### victim\nText.\nSee: D-olive-19, ovp_decoder, OVP_INT4, harmonia-kv4.low, outlier.\n")
    assert "(term-victim)=\n### victim" in page
    for anchor in ("#d-olive-19", "#unit-ovp-decoder", "#format-ovp-int4", "#harmonia-kv4-low", "#term-outlier"):
        assert f"({anchor})" in page


def test_markup_in_docstrings_is_escaped() -> None:
    assert text.prose("<a, b> is a*b, `a*b` (D-olive-19)") == r"\<a, b\> is a\*b, `a*b` ([D-olive-19](#d-olive-19))"


def test_page_of_unit_is_complete() -> None:
    written = unit_pages.page(units.find("orizuru"))
    page = written["units/orizuru.md"]
    assert written["units/orizuru.svg"].startswith("<svg")
    for port in units.find("orizuru").ports(units.find("orizuru").configs["n8"]).all:
        assert f"`{port.name}`" in page
    assert "| `n` | needed |" in page and "`n=8`" in page and "[D-kllm-" in page
    assert "| 0 | load | 3 7 1 5 2 6 9 4 |" in page
    assert "automodule:: refemu.units.kllm.orizuru" in page
    assert "| `cycles` | counter | sum |" in page and "combinational: a row is one call" in page


def test_page_of_format_is_complete() -> None:
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


def test_page_of_validation_names_each_conformance_test() -> None:
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
def test_broken_link_is_found(link: str, complaint: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f'<p id="here"><a href="{link}">x</a></p>')
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    assert list(links.broken(tmp_path)) == ([complaint] if complaint else [])


def test_large_page_is_found_unless_generated(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("x" * 11)
    assert list(links.large(tmp_path, 10)) == ["a.html: 11 bytes, of at most 10"]
    assert list(links.large(tmp_path, 11)) == []
    (tmp_path / "a.html").write_text(f"<p>{text.GENERATED}</p>")
    assert list(links.large(tmp_path, 10)) == []


def test_units_are_listed_by_paper() -> None:
    written = unit_pages._lists()
    assert "\nolive\nkllm\n" in written["units/index.md"] and "\novp_decoder\n" in written["units/olive.md"]
    assert "orizuru" not in written["units/olive.md"]


def test_scheme_has_a_page() -> None:
    written = format_pages._schemes()
    assert "(scheme-olive-4)=\n# olive-4" in written["schemes/olive-4.md"] and "olive-4" in written["schemes/index.md"]


def test_drawings_in_tutorials_become_files() -> None:
    page = "a\n```{raw} html\n<svg>\nx</svg>\n```\nb\n```{raw} html\n<p>\n```\n"
    files = text.pictures(page, "tutorials/t")
    assert files["tutorials/t-1.svg"] == "<svg>\nx</svg>"
    assert files["tutorials/t.md"] == "a\n![Plot](t-1.svg)\nb\n```{raw} html\n<p>\n```\n"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if reason := fit.missing():
        fatal = os.environ.get("CI", "").lower() not in ("", "0", "false")
        (pytest.fail if fatal else pytest.skip)(f"no browser for the pages; lacks {reason}")
    driver = fit.start()
    yield driver
    driver.quit()


@pytest.mark.long
@pytest.mark.parametrize(
    ("element", "wrong"),
    [
        ('<p style="width: 100px">x</p>', []),
        ('<div style="overflow-x: auto"><p style="width: 9000px">x</p></div>', []),
        ('<p style="width: 1000px">x</p>', [400, 400]),
        ('<p style="width: 9000px">x</p>', [400, 400, 1600, 1600]),
        ('<div style="overflow: hidden; width: 50px"><p style="width: 90px">x</p></div>', [400, 1600]),
    ],
)
def test_elements_wider_than_window_are_found(element: str, wrong: list[int], tmp_path: Path, browser: Any) -> None:
    (tmp_path / "a.html").write_text(
        f'<meta name="viewport" content="width=device-width"><body style="margin:0"><article>{element}</article>'
    )
    found = list(fit.overflows(tmp_path, browser))
    assert [int(line.split()[2]) for line in found] == wrong


@pytest.mark.long
def test_search_without_server_has_excerpts(tmp_path: Path, browser: Any) -> None:
    (tmp_path / "_static").mkdir()
    (tmp_path / "a.html").write_text('<nav>menu</nav><article role="main"><h1>A</h1><p>1 &lt; 2<br>b</p></article>end')
    (tmp_path / "search.html").write_text("<html><head></head><body></body></html>")
    excerpts.write(tmp_path)
    browser.get((tmp_path / "search.html").as_uri())
    script = "fetch('a.html').then(answer => answer.text()).then(arguments[0])"
    assert browser.execute_async_script(script) == '<div role="main">A1 &lt; 2b</div>'
