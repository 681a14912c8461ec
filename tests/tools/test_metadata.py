"""The citation and the metadata agree with the package and with the page of the papers."""

import re
from pathlib import Path

import refemu

ROOT = Path(__file__).resolve().parent.parent.parent


def test_citation_names_version_and_four_papers() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", text, re.MULTILINE) == [refemu.__version__]
    papers = (ROOT / "docs" / "papers.md").read_text()
    cited = re.findall(r"https://arxiv.org/abs/([\d.]+\d)", text)
    assert len(cited) == 4 and set(cited) == set(re.findall(r"https://arxiv.org/abs/(\d+\.\d+)", papers))
    for title in re.findall(r'^    title: "(.+)"$', text, re.MULTILINE):
        assert title in papers


def test_changelog_follows_keep_a_changelog() -> None:
    """With two sections of our own, which come first; one release at most is not out yet."""
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    known = ["Changed bits", "Changed names", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]

    assert re.match(rf"{re.escape(refemu.__version__)} (\(unreleased\)|- )", releases[0])
    for release in releases:
        assert re.match(r"\d+\.\d+\.\d+ (\(unreleased\)|- \d{4}-\d\d-\d\d)\n", release), release[:40]
        assert "(unreleased)" not in release[:40] or release is releases[0]
        sections = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert sections == sorted(set(sections), key=known.index), sections
