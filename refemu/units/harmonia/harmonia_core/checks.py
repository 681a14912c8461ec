"""Checks of harmonia_core: options that do not match the kind of a product, head sizes, operands.

[harmonia §IV-A, Fig. 12]
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.arith.checks import Refused, reject, require_int
from refemu.units.declaration import decides
from refemu.units.harmonia.bfp_pe import require_fields
from refemu.units.harmonia.harmonia_core.plan import HEADS, LANES
from refemu.units.harmonia.k_offset.k_offset import require_offsets


@decides("D-harmonia-47")
def require_kind(core: Any) -> None:
    """Reject options that do not match the kind of C, and head sizes without a rule."""
    kind, name = core.kind, core.name
    if kind in HEADS:
        require_heads(core)
    if kind == "context" and core.columns % LANES:
        raise Refused(
            f"{name}: columns of kind 'context' must be a multiple of {LANES}, got {core.columns}; "
            f"take kind 'final' and convert the heads together"
        )
    if kind not in ("linear", "final") and core.activation != "none":
        raise Refused(f"{name}: an activation needs kind 'linear' or 'final', got {kind!r}")
    if core.bias_add != "none" and kind in ("score", "context"):
        raise Refused(f"{name}: a bias needs a linear layer, got kind {kind!r}")
    rows = core.rows if core.positions == "start" else 1  # rows of query heads may have one position
    if kind == "score" and core.start > core.columns - rows:
        raise Refused(
            f"{name}: columns must be at least {core.start + rows} keys, as many as start and rows, got {core.columns}"
        )
    if kind == "k" and 0 < core.start < core.window:
        raise Refused(
            f"{name}: start must be 0 or after the window of {core.window} tokens, whose keys wait for each other, "
            f"got {core.start}"
        )


def require_heads(core: Any) -> None:
    """Reject columns that are not whole heads, and heads that rotation cannot pair."""
    columns, head_dim, name = core.columns, core.head_dim, core.name
    require_int(head_dim, 1, max(columns, 1), name, "head_dim")
    if columns % head_dim:
        raise Refused(f"{name}: columns of queries and keys must be whole heads of {head_dim}, got {columns}")
    if core.rotation != "none" and head_dim % 2:
        raise Refused(f"{name}: head_dim must be even for rotation {core.rotation!r}, got {head_dim}")


def require_operands(core: Any, inputs: Mapping[str, Any]) -> None:
    """Reject bits set in fields of b that its type does not have, and invalid values of optional ports.

    inputs: by port, any leading axes, then lanes.
    """
    shape, groups = core.shape, core.groups
    lead = np.shape(inputs["a_exp"])[:-1]
    b, b_sign = (np.reshape(inputs[name], (*lead, shape.columns, 1, shape.inner)) for name in ("b", "b_sign"))
    b_exp, w_scale = (np.reshape(inputs[name], (*lead, shape.columns, groups)) for name in ("b_exp", "w_scale"))
    single, many = (np.full((*lead, shape.columns, count), core.mode) for count in (1, groups))
    require_fields(core.name, single, b, b_sign, np.zeros_like(single), np.zeros_like(single))
    require_fields(core.name, many, np.zeros((*many.shape, 1), int), np.zeros((*many.shape, 1), int), b_exp, w_scale)
    if "frozen" in inputs:
        require_offsets(core.name, "frozen", inputs["frozen"], core.offsets.chosen)
    if "position" in inputs:
        require_positions(core, np.asarray(inputs["position"], np.int64))
    if "bias" in inputs:
        infinite = np.asarray(inputs["bias"]) & 0x7C00 == 0x7C00
        reject(infinite, f"{core.name}: bias must be finite", inputs["bias"])


def require_positions(core: Any, position: np.ndarray) -> None:
    """Reject positions (..., rows) that are repeated or descend, and those that the configuration does not admit.

    Rows of scores may have one position: query heads that share their keys (D-harmonia-60).
    """
    name = core.name
    later = np.diff(position, axis=-1, prepend=-1) <= (-1 if core.kind == "score" else 0)
    reject(later, f"{name}: position must ascend from row to row", position)
    reject(position < core.start, f"{name}: position must be at least start, which is {core.start}", position)
    if core.kind == "score":
        unseen = position >= core.columns
        reject(unseen, f"{name}: position must be below {core.columns}, the number of keys", position)
    if core.waits:
        first = position[..., :1]
        reject(first > 0, f"{name}: position of the first key must be 0, whose window gives the offsets", first)
