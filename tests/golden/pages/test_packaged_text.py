"""Pages in the package."""

from refemu.golden.pages.packaged_text import page, pages


def test_pages_are_texts() -> None:
    for name in ("decisions-olive.md", "variants-olive.md", "glossary.md"):
        assert page(name).startswith("# ")


def test_pages_of_a_kind_are_joined() -> None:
    joined = pages("decisions-")
    assert all(page(f"decisions-{paper}.md") in joined for paper in ("arith", "kllm", "mix"))
    assert "# Variants" not in joined
