"""Variants of the decisions of orizuru."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused
from refemu.units import Config, Variant, choices, find
from refemu.units.kllm.orizuru.orizuru import Orizuru
from refemu.units.kllm.orizuru.trees import better
from refemu.units.variant import overriding

_ENDS = (int(fp16.order_key(np.uint16(0xFC00))), int(fp16.order_key(np.uint16(0x7C00))))  #: keys of -inf and inf


def _not_repaired(config: Config, inputs: Any, result: Any) -> Any:
    """Roots that still show the last popped element."""
    if not config["k"]:
        raise Refused("orizuru: k must be at least 1 for this variant, got 0")
    x, gone = np.asarray(inputs["x"]), {}
    for name in ("max", "min"):
        last = np.asarray(getattr(result, f"{name}_index")).reshape(*x.shape[:-1], -1)[..., -1:]
        gone[f"root_{name}"] = np.take_along_axis(x, last.astype(np.int64), -1)[..., 0]
        gone[f"root_{name}_valid"] = np.zeros_like(getattr(result, f"root_{name}_valid"))
    return gone


def _padded(config: Config, inputs: Any, result: Any) -> Any:
    """Padding leaves hold +0 and take part."""
    n, size = config["n"], 1 << max(config["n"] - 1, 0).bit_length()
    if n == size:
        raise Refused(f"orizuru: n must not be a power of two for this variant, got {n}")
    x = np.asarray(inputs["x"])
    wide = np.concatenate([x, np.zeros((*x.shape[:-1], size - n), x.dtype)], axis=-1)
    other = find("orizuru").run_compiled(wide, **{**config, "n": size})
    names = ("max_index", "min_index", "root_max", "root_min", "root_max_valid", "root_min_valid")
    return {**{name: getattr(other, name) for name in names}, "outlier_mask": other.outlier_mask[..., :n]}


def _shared_mask(config: Config, inputs: Any, result: Any) -> Any:
    """An element that the max tree popped is unavailable to the min tree; an empty pop repeats leaf 0."""
    n, k = config["n"], config["k"]
    if not k:
        raise Refused("orizuru: k must be at least 1 for this variant, got 0")
    x = np.asarray(inputs["x"]).reshape(-1, n)
    order = np.asarray(find("orizuru").run_compiled(x, **{**config, "k": n}).min_index).reshape(-1, n)
    largest = np.asarray(result.max_index).reshape(-1, k)
    smallest, masks = np.zeros_like(largest), np.zeros((len(x), n), np.bool_)
    for row in range(len(x)):
        free = [leaf for leaf in order[row].tolist() if leaf not in largest[row]][:k]
        smallest[row, : len(free)] = free
        masks[row, [*largest[row].tolist(), *free]] = True
    return {
        "min_index": smallest.reshape(np.shape(result.min_index)),
        "outlier_mask": masks.reshape(np.shape(result.outlier_mask)),
    }


def _total(config: Config) -> Config:
    return Config(**{**config, "total_order": not config["total_order"]})


def _ties_right(old: Orizuru, self: Orizuru, tree: int, bits: Sequence[int], *pair: Any) -> tuple[int, int]:
    _, node = pair
    left, right = self._leaf(bits, 2 * node), self._leaf(bits, 2 * node + 1)
    bit, both = old._better(tree, bits, *pair)
    return (1 if both and self._keys[left] == self._keys[right] else bit), both


def _popped_is_infinite(old: Orizuru, self: Orizuru, tree: int, bits: Sequence[int], *pair: Any) -> tuple[int, int]:
    alive, node = pair
    leaves = self._leaf(bits, 2 * node), self._leaf(bits, 2 * node + 1)
    sides = [(1, self._keys[leaf] if alive[leaf] else _ENDS[tree]) if leaf < self.n else (0, 0) for leaf in leaves]
    return better(tree, sides[0], sides[1])[0], old._better(tree, bits, *pair)[1]


_device = overriding(Orizuru)
VARIANTS: tuple[Variant, ...] = (
    *choices("D-kllm-21", "min_leaf", "not_max", "compare"),
    _device("D-kllm-21: the right one of equal values is popped first", _better=_ties_right),
    _device("D-kllm-22: a popped leaf is an infinity that takes part", _better=_popped_is_infinite),
    Variant("D-kllm-23", "the path is not repaired after the last pop", answer=_not_repaired),
    Variant("D-kllm-25", "padding leaves are zeros that take part", answer=_padded),
    Variant("D-kllm-26", "an element popped by the max tree is unavailable to the min tree", answer=_shared_mask),
    Variant("D-kllm-27", "zeros of both signs are ordered if they are equal here, and vice versa", apply=_total),
)
UNOBSERVABLE: dict[str, str] = {
    "D-kllm-70": "A row of a set is a whole search. How much of a tree settles in a cycle changes its cycles, not "
    "its bits."
}
