"""Texts of docs/ in the package, by name."""

from functools import cache
from importlib import resources


@cache
def page(name: str) -> str:
    """Read a page: "decisions.md", "alternatives.md", "glossary.md"."""
    return resources.files("refemu.golden.pages").joinpath(f"texts/{name}").read_text("utf-8")
