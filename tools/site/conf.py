"""Settings of Sphinx; its warnings are errors (`make docs`)."""

import re
from pathlib import Path

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
html_use_index = False  # half a megabyte of links; the search finds the same names
html_domain_indices = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
templates_path: list[str] = []
exclude_patterns: list[str] = []
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
default_role = "code"
autodoc_typehints = "none"  # the docstrings have the types
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # a constant would have the docstring of dict
napoleon_use_param = False  # types as text: their words are not names to link to
napoleon_use_keyword = False
napoleon_use_rtype = False
napoleon_use_ivar = True
nitpicky = False
keep_warnings = False
_CODE = re.compile(r"(`[^`]*`)")
_OPTION = re.compile(r'<span class="pre">(?=-)')  #: of the command line, in code


def _escaped(line: str) -> str:
    """Escape characters that are markup in reStructuredText but not in docstrings of refemu."""
    parts = _CODE.split(line)
    return "".join(
        part if number % 2 else re.sub(r"([*|\\]|(?<=\w)_(?!\w))", r"\\\1", part) for number, part in enumerate(parts)
    )


def _verbatim(lines: list[str]) -> list[str]:
    """Make literal blocks of paragraphs with indented lines; they are listings."""
    text: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        parts = paragraph.split("\n")
        listing = any(line[:1] == " " for line in parts)
        text += ["::", "", *(f"   {line}" for line in parts), ""] if listing else [*map(_escaped, parts), ""]
    return text


#: comment of an attribute, saved from napoleon, which would read `ports: of a unit` as a type and its meaning
_attribute: list[str] = []


def _plain(app, what, name, object, options, lines):
    text = _verbatim(lines) if what == "module" else [_escaped(line) for line in lines]
    _attribute[:] = text if what in ("attribute", "data") else []
    lines[:] = [] if _attribute else text


def _restored(app, what, name, object, options, lines):
    lines[:] = _attribute or lines


def _unbroken(app, pagename, templatename, context, doctree):
    """Mark options, which a browser would break after a hyphen."""
    context["body"] = _OPTION.sub('<span class="pre option">', context.get("body", ""))


def setup(app):
    """Escape docstrings before napoleon reads their sections, and mark options."""
    app.connect("html-page-context", _unbroken)
    app.connect("autodoc-process-docstring", _plain, priority=100)
    app.connect("autodoc-process-docstring", _restored, priority=900)
