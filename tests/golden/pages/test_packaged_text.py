"""Pages in the package."""

from refemu.golden.pages.packaged_text import page


def test_pages_are_texts() -> None:
    for name in ("decisions.md", "alternatives.md", "glossary.md"):
        assert page(name).startswith("# ")
