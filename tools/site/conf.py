"""Settings of Sphinx; warnings are errors (`make docs`)."""

import re

import refemu

project = "refemu"
author = "the authors of refemu"
copyright = "the authors of refemu; Apache-2.0"
version = release = refemu.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"refemu {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
templates_path: list[str] = []
exclude_patterns: list[str] = []
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
default_role = "code"
autodoc_typehints = "none"  # docstrings have the types
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # otherwise constants of type dict would have dict's docstring
napoleon_use_param = False  # types as text: their words are not names to link
napoleon_use_keyword = False
napoleon_use_rtype = False
napoleon_use_ivar = True
nitpicky = False
keep_warnings = False
_CODE = re.compile(r"(`[^`]*`)")


def _escaped(line: str) -> str:
    """Escape characters that are markup in reStructuredText and literal in refemu's docstrings."""
    parts = _CODE.split(line)
    return "".join(
        part if number % 2 else re.sub(r"([*|\\]|(?<=\w)_(?!\w))", r"\\\1", part) for number, part in enumerate(parts)
    )


def _verbatim(lines: list[str]) -> list[str]:
    """Keep paragraphs with indented lines as listings."""
    text: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        parts = paragraph.split("\n")
        listing = any(line[:1] == " " for line in parts)
        text += ["::", "", *(f"   {line}" for line in parts), ""] if listing else [*map(_escaped, parts), ""]
    return text


#: of an attribute, before and after napoleon: `ports: of a unit` is a comment there, not a type and its meaning
_attribute: list[str] = []


def _plain(app, what, name, object, options, lines):
    text = _verbatim(lines) if what == "module" else [_escaped(line) for line in lines]
    _attribute[:] = text if what in ("attribute", "data") else []
    lines[:] = [] if _attribute else text


def _restored(app, what, name, object, options, lines):
    lines[:] = _attribute or lines


def setup(app):
    """Escape docstrings before their sections are read."""
    app.connect("autodoc-process-docstring", _plain, priority=100)
    app.connect("autodoc-process-docstring", _restored, priority=900)
