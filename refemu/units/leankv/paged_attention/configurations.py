"""Ready configurations of paged_attention: small pages, the paper's, and smaller blocks of threads. [leankv §6.2]"""

from dataclasses import asdict
from typing import Any

from refemu.units.leankv.paged_attention.arithmetic import BLOCK, DIFFKV, PAPER, Arithmetic
from refemu.units.unit import Config

SMALL: dict[str, int | str] = {
    "head_size": 64,
    "heads": 2,
    "high": "K8V4",
    "low": "K4V2",
    "page_bytes": 384,
    "cells": 6,
}

#: a smaller block of threads than in the published code
NARROW: dict[str, Any] = {
    "warps": 2,
    "sum_threads": 8,
    "key_threads": 2,
    "value_rows": 2,
    "value_slots": 1,
    "join": "sequential",
}


def _options(arithmetic: Arithmetic, **changes: Any) -> dict[str, Any]:
    """Parameters of a configuration; those of the block only if it is not the default."""
    usual = asdict(Arithmetic())
    block = {*BLOCK, "join"}
    options = {**asdict(arithmetic), **changes}
    return {name: value for name, value in options.items() if name not in block or value != usual[name]}


CONFIGS: dict[str, Config] = {
    "paper": Config(**SMALL, preset="paper", **_options(PAPER)),
    "diffkv": Config(**SMALL, preset="diffkv", **_options(DIFFKV, partition_tokens=1)),
    "odd": Config(**{**SMALL, "heads": 8, "page_bytes": 512}, preset="paper", **_options(PAPER)),
    "long": Config(**{**SMALL, "heads": 1, "page_bytes": 1024, "cells": 14}, preset="paper", **_options(PAPER)),
    "one_precision": Config(
        **{**SMALL, "low": None, "high": "K4V4"}, preset="paper", **_options(PAPER, order="sequential", fma=False)
    ),
    "f128": Config(
        **{**SMALL, "heads": 1, "head_size": 128, "page_bytes": 6784},
        preset="paper",
        **_options(PAPER),
        stages=True,
    ),
    "f64": Config(**{**SMALL, "heads": 3, "page_bytes": 6144}, preset="paper", **_options(PAPER), stages=True),
    "narrow": Config(**{**SMALL, "heads": 1}, preset="paper", **_options(PAPER, **NARROW), stages=True),
}
