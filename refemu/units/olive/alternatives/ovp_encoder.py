"""Other answers to the decisions of ovp_encoder, each a changed pair format."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from refemu.formats.nearest import TIES
from refemu.units.alternative import Alternative
from refemu.units.olive.ovp_encoder import pair_format
from refemu.units.unit import Config


def _other(field: str, choose: Callable[[Any], Any], config: Config) -> Config:
    fmt: Any = pair_format(config["fmt"])
    if field == "outlier" and fmt.outlier is None:
        return config
    return Config(fmt=dataclasses.replace(fmt, **{field: choose(fmt)}))


def _always(value: Any, fmt: Any) -> Any:
    return value


def _format(decision: str, says: str, field: str, choose: Callable[[Any], Any]) -> Alternative:
    """A device whose pair format differs in one field."""
    return Alternative(decision, says, partial(_other, field, choose))


ALTERNATIVES: tuple[Alternative, ...] = (
    _format("D-olive-1", "the left element is in the high half", "left", lambda fmt: "high"),
    _format("D-olive-3", "the threshold is the largest normal value", "threshold", lambda fmt: fmt.normal.largest),
    _format("D-olive-4", "a value at the threshold is the other kind", "closed", lambda fmt: not fmt.closed),
    _format("D-olive-5", "of two outliers the left one wins", "winner", lambda fmt: "left"),
    _format("D-olive-5", "of two outliers the larger wins", "winner", lambda fmt: "larger"),
    *(_format("D-olive-7", f"ties round {rule}", "rounding", partial(_always, rule)) for rule in TIES),
    _format("D-olive-12", "no clip at 2**15", "outlier", lambda fmt: dataclasses.replace(fmt.outlier, limit=None)),
    _format(
        "D-olive-13",
        "the bias is one more",
        "outlier",
        lambda fmt: dataclasses.replace(fmt.outlier, bias=fmt.outlier.bias + 1),
    ),
    _format("D-olive-46", "outliers beyond the largest become 0", "far", lambda fmt: float(fmt.outlier.largest)),
    _format("D-olive-46", "no outlier is too far", "far", lambda fmt: None),
)
