"""A page for each format and each scheme, generated from constants, structure and comments."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refemu import draw, formats
from refemu.golden.pages import parameters
from refemu.models.schemes import SCHEMES
from tools.site.text import GENERATED, code, link, prose, slug, table

MOST = 256  #: most codes of a table


def pages() -> dict[str, str]:
    """Pages and drawings of formats and schemes by name, each with an index."""
    ready: dict[str, Any] = {**formats.constants(), **formats.blocks()}
    written: dict[str, str] = {}
    for name, fmt in ready.items():
        written |= page(name, fmt)
    rows: list[list[object]] = [[link(name), type(fmt).__name__, code(repr(fmt))] for name, fmt in ready.items()]
    tree = "\n".join(ready)
    index = f"# Formats\n\n{table(['format', 'kind', 'definition'], rows)}\n```{{toctree}}\n:hidden:\n{tree}\n```\n"
    return {"formats/index.md": index, **written, **_schemes()}


def page(name: str, fmt: Any) -> dict[str, str]:
    """The page of a format, and its drawing."""
    picture = drawing(fmt)
    files = {f"formats/{name}.svg": picture} if picture else {}
    return {**files, f"formats/{name}.md": "\n".join(_parts(name, fmt, bool(picture)))}


def drawing(fmt: Any) -> str:
    """A drawing of a word, a group or a page of a format, or ""."""
    if isinstance(fmt, formats.Ovp):
        return draw.pair(fmt, 0x85 if fmt.width == 4 else 0x8035)
    if isinstance(fmt, formats.AbFloat):
        return draw.abfloat(fmt, int(fmt.codes()[-1]))
    if isinstance(fmt, formats.Bfp):
        group = np.array([1.5, -0.25, 0.01, 3.75, -2.0, 0.5, 0.0, 1.0], np.float16)
        tensor = fmt.encode(np.resize(group, fmt.group))
        return draw.bfp(
            fmt,
            *(np.ravel(np.asarray(part)).tolist() for part in (tensor.sign, tensor.mantissa)),
            int(np.ravel(np.asarray(tensor.exponent))[0]),
        )
    if isinstance(fmt, formats.HeteroKV):
        return draw.page(formats.UnifiedPage(128, fmt))
    return ""


def _parts(name: str, fmt: Any, picture: bool) -> Iterator[str]:
    yield f"({slug(f'format-{name}')})=\n# {name}\n\n{prose((type(fmt).__doc__ or '').strip().splitlines()[0])}\n"
    if picture:
        yield f"![A word of {name}]({name}.svg)\n"
    yield f"```python\nfrom refemu.formats import {name}\n\n{name}  # {fmt!r}\n```\n"
    if name in formats.blocks():
        fields: list[list[object]] = [list(map(prose, map(str, part))) for part in formats.structure(fmt)]
        yield f"## Stored fields\n\n{table(['field', 'bits', 'per', 'meaning'], fields)}"
    yield "## Parameters\n"
    yield from _parameters(parameters.of_format(name))
    if name in formats.constants():
        codes = fmt.legal_pairs() if hasattr(fmt, "legal_pairs") else fmt.codes()
        width = int(fmt.width) * (2 if hasattr(fmt, "legal_pairs") else 1)
        rows: list[list[object]] = [
            [f"0x{code:x}", f"{code:0{width}b}", prose(fmt.describe(code))] for code in map(int, codes[:MOST])
        ]
        yield f"## Codes\n\n{table(['code', 'bits', 'meaning'], rows)}"
        yield f"```\nrefemu show {name}\n```\n"


def _parameters(known: dict[str, parameters.Parameter]) -> Iterator[str]:
    for each in known.values():
        yield f"({slug(f'{each.of}-{each.name}')})=\n"
    rows: list[list[object]] = [
        [code(each.name), code(each.default), ", ".join([*map(code, each.choices), *each.open]), prose(each.meaning)]
        for each in known.values()
    ]
    yield table(["parameter", "value", "values", "meaning"], rows)


def _schemes() -> dict[str, str]:
    """The index and the pages of schemes."""
    written = {f"schemes/{name}.md": "\n".join(_scheme(name)) for name in SCHEMES}
    rows: list[list[object]] = [
        [link(name), scheme.paper, ", ".join(scheme.halves)] for name, scheme in SCHEMES.items()
    ]
    head = (
        "# Schemes\n\nA scheme says which format and unit compute each step of a model ([steps](../fp16-scheme.md)).\n"
    )
    listed = table(["scheme", "paper", "halves that a mix may take"], rows)
    tree = "\n".join(SCHEMES)
    return {"schemes/index.md": f"{head}\n{listed}```{{toctree}}\n:hidden:\n{tree}\n```\n", **written}


def _scheme(name: str) -> Iterator[str]:
    scheme = SCHEMES[name]
    yield f"({slug(f'scheme-{name}')})=\n# {name}\n\n[{scheme.paper}]; in a mix: {', '.join(scheme.halves)}.\n"
    yield f"`refemu ppl --scheme {name}:parameter=value` changes a parameter.\n"
    yield from _parameters(parameters.of_scheme(name))
    yield f"{GENERATED}\n"
