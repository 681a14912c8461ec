"""Texts of docs/ in the package, by name."""

from functools import cache
from importlib import resources


@cache
def page(name: str) -> str:
    """Read a page: "glossary.md", "decisions-olive.md", "variants-olive.md"."""
    return resources.files("refemu.golden.pages").joinpath(f"texts/{name}").read_text("utf-8")


def pages(prefix: str) -> str:
    """Join the pages whose names begin with a prefix: "decisions-", "variants-"."""
    names = sorted(each.name for each in resources.files("refemu.golden.pages").joinpath("texts").iterdir())
    return "\n".join(page(name) for name in names if name.startswith(prefix))
