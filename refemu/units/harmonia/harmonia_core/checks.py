"""Refusals of harmonia_core: options that do not go with the kind of a product, and head sizes. [harmonia §IV-A]"""

from typing import Any

from refemu.arith.checks import Refused, require_int
from refemu.units.harmonia.harmonia_core.plan import HEADS, LANES, Rotation

NAME = "harmonia_core"


def require_kind(core: Any) -> None:
    """Refuse options that do not go with the kind of C, and head sizes without a rule (D-harmonia-47)."""
    kind, name = core.kind, core.name
    if kind in HEADS:
        require_heads(core.columns, core.head_dim, core.rotation)
    if kind == "context" and core.columns % LANES:
        raise Refused(
            f"{name}: columns of kind 'context' are a head of whole groups of {LANES}, whose rows nothing pads; take "
            f"kind 'final' and convert the heads side by side, got {core.columns}"
        )
    if kind not in ("linear", "final") and core.activation != "none":
        raise Refused(f"{name}: activation goes with kind 'linear' or 'final', got {kind!r}")
    if core.bias_add != "none" and kind in ("score", "context"):
        raise Refused(f"{name}: bias goes with linear layers, got kind {kind!r}")
    if kind == "score" and core.start > core.columns - core.rows:
        raise Refused(f"{name}: {core.rows} queries at {core.start} need as many keys, got {core.columns}")
    if kind == "k" and 0 < core.start < core.window:
        raise Refused(
            f"{name}: start must be 0 or behind the window of {core.window} tokens, whose keys wait for each other, "
            f"got {core.start}"
        )


def require_heads(columns: int, head_dim: int, rotation: Rotation) -> None:
    """Refuse columns that are not whole heads, and heads that rotation cannot pair."""
    require_int(head_dim, 1, max(columns, 1), NAME, "head_dim")
    if columns % head_dim:
        raise Refused(f"{NAME}: queries and keys are whole heads, got {columns} columns and head_dim {head_dim}")
    if rotation != "none" and head_dim % 2:
        raise Refused(f"{NAME}: head_dim must be even under rotation {rotation!r}, got {head_dim}")
