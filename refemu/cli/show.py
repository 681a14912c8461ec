"""`refemu show FORMAT [CODE]`: decode all codes of a format, or one; `page PAIR`: the byte map of a KV page."""

import argparse
from typing import Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import integer
from refemu.cli import explain
from refemu.cli.output import print_json, print_table

LONGEST = 256  #: rows of a printed table; --json prints all


def run(arguments: argparse.Namespace) -> int:
    """Print one code or all of them; return 0."""
    from refemu import formats

    if arguments.format.startswith("D-") and arguments.code is None:
        return explain.decision(arguments.format, None, arguments.json)
    if arguments.format.lower() == "page":
        return _page(arguments)
    fmt = formats.find(arguments.format)
    if not hasattr(fmt, "codes") and not hasattr(fmt, "legal_pairs"):
        return _block(arguments, fmt)
    if arguments.code is not None:
        return _one(
            arguments, fmt, _code(arguments.code, arguments.format.upper(), _width(fmt), hasattr(fmt, "legal_pairs"))
        )
    codes = _codes(fmt)
    shown = codes if arguments.json else codes[:LONGEST]
    table = [_row(fmt, int(code)) for code in shown]
    if arguments.json:
        print_json("show", {"format": repr(fmt), "codes": table})
        return 0
    title = f"{arguments.format.upper()}  {fmt!r}"
    print_table(title, ["code", "bits", "meaning"], [list(row.values()) for row in table], ["code"])
    if codes.size > LONGEST:
        print(f"... {codes.size - LONGEST} more codes; --json prints all, CODE as a second argument prints one")
    return 0


def _page(arguments: argparse.Namespace) -> int:
    """Print the byte map of a page, or the meaning of one byte; return 0."""
    from refemu.formats import UnifiedPage
    from refemu.formats.leankv import hetero_kv, kv_page_map

    if arguments.code is None:
        raise Refused(f"show page: give a precision pair: {', '.join(hetero_kv.PAIRS)}")
    page = UnifiedPage(
        arguments.head, hetero_kv.find(arguments.code), arguments.page_bytes, k_group=arguments.k_group or 4
    )
    if arguments.byte is not None:
        line = kv_page_map.describe(page, arguments.byte)
        if arguments.json:
            print_json("show", {"page": repr(page), "byte": arguments.byte, "meaning": line})
        else:
            print(line)
        return 0
    rows = [
        {"segment": row.name, "first": row.first, "last": row.last, "bytes": row.bytes, "meaning": row.meaning}
        for row in kv_page_map.byte_map(page)
    ]
    if arguments.json:
        print_json("show", {"page": repr(page), "tokens": page.tokens, "page_bytes": page.size, "segments": rows})
        return 0
    title = f"{page.config.name}  head size {page.head_size}: {page.tokens} tokens in {page.size} bytes"
    print_table(
        title,
        ["segment", "first", "last", "bytes", "meaning"],
        [list(row.values()) for row in rows],
        ["first", "last", "bytes"],
    )
    return 0


def _block(arguments: argparse.Namespace, fmt: Any) -> int:
    """Print the fields of a block format; return 0."""
    from refemu import formats

    if arguments.code is not None:
        raise Refused(f"{arguments.format.upper()}: a block format has no table of codes; leave out {arguments.code!r}")
    parts = formats.structure(fmt)
    if arguments.json:
        print_json("show", {"format": repr(fmt), "fields": [part._asdict() for part in parts]})
    else:
        print_table(f"{arguments.format.upper()}  {fmt!r}", ["field", "bits", "per", "meaning"], parts, ["bits"])
    return 0


def _codes(fmt: Any) -> np.ndarray:
    codes: np.ndarray = fmt.legal_pairs() if hasattr(fmt, "legal_pairs") else fmt.codes()
    return codes


def _row(fmt: Any, code: int) -> dict[str, Any]:
    return {"code": code, "bits": f"{code:0{_width(fmt)}b}", "meaning": fmt.describe(code)}


def _one(arguments: argparse.Namespace, fmt: Any, code: int) -> int:
    row = _row(fmt, code)
    if arguments.json:
        print_json("show", {"format": repr(fmt), **row})
    else:
        print(row["meaning"])
    return 0


def _width(fmt: Any) -> int:
    """Bits of a code, or of the pair of codes of a pair format."""
    return int(fmt.width) * (2 if hasattr(fmt, "legal_pairs") else 1)


def _code(word: str, name: str, bits: int, pair: bool) -> int:
    try:
        code = integer(word)
    except ValueError:
        raise Refused(f"{name}: a code is an integer like 0b0101, 0x5 or 5, got {word[:60]!r}") from None
    if not 0 <= code < 1 << bits:
        what = f"a pair of two {bits // 2}-bit codes" if pair else f"a code of {bits} bits"
        raise Refused(f"{name}: {what} is needed, 0x0 to 0x{(1 << bits) - 1:x}, got {word[:60]}")
    return code
