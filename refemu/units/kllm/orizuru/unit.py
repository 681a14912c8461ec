"""Orizuru: pops the k largest and the k smallest of n fp16 values from two trees of bits over the same leaves.

Paper: [kllm §IV-C, Fig. 7, Eq. (4)]. Nodes are numbered as a heap: the root is 1, the children of h are 2h and 2h + 1,
leaf i is size + i (node 14 of Fig. 7 is x[6]). Level l holds the registers 2^(l-1) to 2^l - 1.
Decisions: D-kllm-21 (ties, and the leaf level of the min tree), D-kllm-22 (a mask, not a value, says what is gone),
D-kllm-23 (the path is repaired after the last pop too), D-kllm-25 (sizes that are no power of two), D-kllm-26 (both
trees may pop one element), D-kllm-27 (NaN is refused, infinities are not).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice, require_int
from refemu.units import orizuru_cases, orizuru_parts, unit
from refemu.units.orizuru_parts import MAX, MIN, TREES, better, levels, units_needed
from refemu.units.orizuru_parts import unit_of_node as unit_of_node
from refemu.units.unit import Cases, Config, Port, Ports, Stepped, Unit, admit, fields, lanes
from refemu.units.unit_cases import Seeds

MIN_LEAF = ("not_max", "compare")  #: where the lowest bits of the min tree come from


class Tree(NamedTuple):
    """Registers of one tree."""

    bits: bytes  #: of node h at [h]: 1 = its right child is the better one; [0] is not used
    alive: bytes  #: of leaf i at [i]: 1 = available, 0 = popped or padding


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    event: str  #: "reset", "load", or "init_", "pop_", "maintain_" with "max" or "min"
    index: int  #: number of the event in its operation, -1 for the reset
    node: int  #: popped leaf, repaired register, or first register of the level just set; 0 where there is none
    k: int  #: pops of each tree
    x: Any  #: words; a tuple of lanes, an int where a port has one lane, here and below
    max_index: Any  #: elements popped so far, 0 where a pop is still to come
    min_index: Any
    outlier_mask: Any  #: popped by either tree
    root_max: int  #: word that leaves the max tree; of element 0 once all are popped
    root_min: int
    root_max_valid: int
    root_min_valid: int
    trees: tuple[Tree, Tree]  #: max, min
    comparisons: int  #: uses of a comparator
    comparisons_live: int  #: those with an available value on both sides
    cycles: int  #: one per level set, pop and repair; the trees work side by side, so the max tree's are counted


@dataclass(frozen=True, eq=False)
class Result(unit.Result):
    """What leaves the unit. Shapes for x (n,); x (..., n) has leading axes, counters are totals.

    From the ports, indices and roots are words: root_max is uint16, indices have the narrowest dtype.
    """

    max_index: np.ndarray  #: int64 (k,), in pop order
    min_index: np.ndarray
    outlier_mask: np.ndarray  #: bool (n,)
    root_max: Any  #: float16: the largest value not popped by the max tree, if root_max_valid
    root_min: Any
    root_max_valid: Any  #: bool
    root_min_valid: Any
    comparisons: int
    comparisons_live: int
    cycles: int


class Orizuru(Stepped):
    """The block of [kllm Fig. 7]: an operation is a load, the levels of both trees, and pops with their repairs."""

    name = "orizuru"

    def __init__(self, n: int, k: int = 1, total_order: bool = False, min_leaf: str = "not_max") -> None:
        """n: inputs. k: pops of each tree, unless `load` says otherwise. total_order: compare integer keys, so that
        -0 < +0 and NaN lies beyond infinity. min_leaf: "not_max" reuses the max tree's comparisons [kllm §IV-C].
        """
        require_int(n, 1, 1 << 24, self.name, "n")
        require_int(k, 0, n, self.name, "k")
        self.n, self.k, self.total_order = n, k, bool(total_order)
        self.min_leaf = require_choice(min_leaf, MIN_LEAF, self.name, "min_leaf")
        self.levels = levels(n)
        self.size = 1 << self.levels  #: leaves, padding included
        self._keys: list[int] = []
        self._enter(self._fresh((0,) * n, k))

    @property
    def ports(self) -> Ports:  # type: ignore[override]
        """Widths for the number of pops loaded last."""
        return ports({"n": self.n, "k": self.state.k})

    @property
    def units(self) -> int:
        """16-input units that make up the tree [kllm Table I]; `unit_of_node` says which register is where."""
        return units_needed(self.n)

    @property
    def last(self) -> int:
        """Number of the last event of an operation."""
        return 2 * self.levels + 2 * self.state.k * (1 + self.levels)

    @property
    def busy(self) -> bool:
        """Whether events of the operation are left."""
        return 0 <= self.state.index < self.last

    def load(self, x: Any, k: int | None = None) -> State:
        """Latch n values, float16 or words, and schedule `k` pops of each tree; returns the State."""
        k = self.k if k is None else k
        require_int(k, 0, self.n, self.name, "k")
        values = fp16.bits(x) if isinstance(x, np.ndarray) and x.dtype == np.float16 else x
        words = fields(self.accept(values)[0])
        require_ordered(np.array(words, np.uint16), self.total_order)
        before = self.state
        self._enter(
            replace(
                self._fresh(words, k),
                event="load",
                index=0,
                comparisons=before.comparisons,
                comparisons_live=before.comparisons_live,
                cycles=before.cycles,
            )
        )
        return self.state

    def _fresh(self, words: tuple[int, ...], k: int) -> State:
        tree = Tree(bytes(self.size), bytes(int(i < self.n) for i in range(self.size)))
        none = lanes((0,) * k) if k else ()
        return State(
            "reset",
            -1,
            0,
            k,
            lanes(words),
            none,
            none,
            lanes((0,) * self.n),
            words[0],
            words[0],
            1,
            1,
            (tree, tree),
            0,
            0,
            0,
        )

    def _enter(self, state: State) -> None:
        keys = fp16.order_key(np.array(fields(state.x), np.uint16), self.total_order)
        self.state, self._keys = state, keys.tolist() + [0] * (self.size - self.n)

    def restore(self, state: Any) -> None:
        """Make every register what it was when `state` was taken; refuses a State that is not this unit's."""
        before, admitted = self.state, isinstance(state, State)
        self.state = replace(before, k=state.k) if admitted else before  # the ports are as wide as its pops are many
        try:
            super().restore(state)
            self._enter(state)
        finally:
            self.state = state if self.state is state else before

    def step(self, *inputs: Any) -> State:
        """With inputs (x,): load them. Without: the next event of the operation.

        Refused, and nothing changes: inputs while an operation is on its way, none after its last event.
        """
        if bool(inputs) == self.busy:
            wanted = f"no inputs: {self.state.event} was the last event" if self.busy else "x: the last pop is repaired"
            raise Refused(f"{self.name}: step takes {wanted}")
        if inputs:
            return self.load(*inputs)
        index, before = self.state.index + 1, self.state
        if index <= 2 * self.levels:
            tree, above = divmod(index - 1, self.levels)
            after = self._initialised(before, tree, self.levels - above)
        else:
            pop, above = divmod(index - 2 * self.levels - 1, 1 + self.levels)
            tree, slot = divmod(pop, before.k)
            after = self._maintained(before, tree) if above else self._popped(before, tree, slot)
        self.state = self._with_roots(replace(after, index=index, cycles=before.cycles + (tree == MAX)))
        return self.state

    def _initialised(self, before: State, tree: int, level: int) -> State:
        """Set every register of one level; the lowest one of the min tree without comparing (D-kllm-21)."""
        bits, alive = bytearray(before.trees[tree].bits), before.trees[tree].alive
        reuse = tree == MIN and level == self.levels and self.min_leaf == "not_max"
        first, used, live = 1 << (level - 1), 0, 0
        for node in range(first, 2 * first):
            bits[node], both = self._better(tree, bits, alive, node)
            if reuse and both:
                bits[node] = 1 - before.trees[MAX].bits[node]
            used, live = used + (not reuse), live + (both and not reuse)
        return self._changed(before, "init", tree, first, Tree(bytes(bits), alive), used, live)

    def _popped(self, before: State, tree: int, slot: int) -> State:
        """The path of bits from the root names the leaf; its value stays, its mask bit goes (D-kllm-22)."""
        bits, alive = before.trees[tree].bits, bytearray(before.trees[tree].alive)
        leaf = self._leaf(bits, 1)
        alive[leaf] = 0
        popped = list(fields(getattr(before, f"{TREES[tree]}_index")))
        popped[slot] = leaf
        mask = list(fields(before.outlier_mask))
        mask[leaf] = 1
        after = self._changed(before, "pop", tree, self.size + leaf, Tree(bits, bytes(alive)), 0, 0)
        return replace(after, outlier_mask=lanes(mask), **{f"{TREES[tree]}_index": lanes(popped)})

    def _maintained(self, before: State, tree: int) -> State:
        """Repair the parent of what changed last."""
        node, bits, alive = before.node >> 1, bytearray(before.trees[tree].bits), before.trees[tree].alive
        bits[node], both = self._better(tree, bits, alive, node)
        return self._changed(before, "maintain", tree, node, Tree(bytes(bits), alive), 1, both)

    def _changed(self, before: State, what: str, tree: int, node: int, now: Tree, used: int, live: int) -> State:
        trees = (now, before.trees[MIN]) if tree == MAX else (before.trees[MAX], now)
        return replace(
            before,
            event=f"{what}_{TREES[tree]}",
            node=node,
            trees=trees,
            comparisons=before.comparisons + used,
            comparisons_live=before.comparisons_live + live,
        )

    def _with_roots(self, state: State) -> State:
        leaves = [self._leaf(tree.bits, 1) for tree in state.trees]
        words, valid = fields(state.x), [tree.alive[leaf] for tree, leaf in zip(state.trees, leaves, strict=True)]
        return replace(
            state,
            root_max=words[leaves[MAX]],
            root_min=words[leaves[MIN]],
            root_max_valid=valid[MAX],
            root_min_valid=valid[MIN],
        )

    def _leaf(self, bits: bytes | bytearray, node: int) -> int:
        """The multiplexers of [kllm Eq. (4)]: the element that `node` passes on."""
        while node < self.size:
            node = 2 * node + bits[node]
        return node - self.size

    def _better(self, tree: int, bits: bytearray, alive: bytes, node: int) -> tuple[int, int]:
        """Bit of `node`, and whether both its sides were available."""
        left, right = self._leaf(bits, 2 * node), self._leaf(bits, 2 * node + 1)
        return better(tree, (alive[left], self._keys[left]), (alive[right], self._keys[right]))

    def steps(self, x: Any, k: int | None = None) -> Iterator[State]:
        """Yield the State after every event of every operation; x: (..., n) float16 or words, k as for `load`."""
        values = np.asarray(x)
        (words,) = admit(self.name, self.ports.inputs, (fp16.bits(values) if values.dtype == np.float16 else values,))
        for row in words.reshape(-1, self.n).tolist():
            yield self.load(lanes(row), k)
            while self.busy:
                yield self.step()

    def draw(self, state: State) -> str:
        """Both trees as text, the max tree above the leaves and the min tree below them, as [kllm Fig. 7(a)]."""
        return orizuru_parts.draw(self.size, self.n, state)

    def __repr__(self) -> str:
        return f"Orizuru(n={self.n}, k={self.k}, total_order={self.total_order}, min_leaf={self.min_leaf!r})"


def require_ordered(words: np.ndarray, total_order: bool) -> None:
    """Refuse NaN among fp16 words, unless the order is total."""
    nan = words & 0x7FFF > 0x7C00
    if nan.any() and not total_order:
        raise Refused(f"orizuru: x must hold no NaN, got one{at(first_index(nan))}")


def require_input(x: Any, k: Any, min_leaf: str) -> tuple[np.ndarray, int]:
    """The words of float16 `x` (..., n), n >= 1, and `k` as an int, if 0 <= k <= n."""
    array = np.asarray(x)
    if array.dtype != np.float16 or array.ndim < 1:
        raise RefusedType(f"orizuru: x must be float16 of shape (n,), got {array.dtype} of shape {array.shape}")
    if not array.shape[-1]:
        raise Refused(f"orizuru: x must hold at least one value, got shape {array.shape}")
    count = int(k) if isinstance(k, np.integer) else k
    require_int(count, 0, array.shape[-1], "orizuru", "k")
    require_choice(min_leaf, MIN_LEAF, "orizuru", "min_leaf")
    return fp16.bits(array), count


def run(x: Any, k: int, *, total_order: bool = False, min_leaf: str = "not_max") -> Result:
    """The k largest and the k smallest elements of every row of `x`, and what is left at the roots.

    x: (..., n) float16, no NaN unless total_order. k: 0 <= k <= n, pops of each tree. total_order, min_leaf: as for
    Orizuru. Returns the Result. Raises RefusedType for another dtype or a scalar. Paper: [kllm §IV-C].
    """
    words, k = require_input(x, k, min_leaf)
    require_ordered(words, total_order)
    device = Orizuru(words.shape[-1], k, total_order, min_leaf)
    ends = [state for state in device.steps(words) if state.index == device.last]
    indices = [_column(ends, name, np.int64, (*words.shape[:-1], k)) for name in ("max_index", "min_index")]
    mask = _column(ends, "outlier_mask", np.bool_, words.shape)
    roots = [_column(ends, name, np.uint16, words.shape[:-1]) for name in ("root_max", "root_min")]
    valid = [_column(ends, f"{name}_valid", np.bool_, words.shape[:-1]) for name in ("root_max", "root_min")]
    last = device.state
    return result(
        (indices[0], indices[1], mask, roots[0], roots[1], valid[0], valid[1]),
        (last.comparisons, last.comparisons_live, last.cycles),
    )


def _column(states: list[State], name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    return np.array([fields(getattr(state, name)) for state in states], dtype).reshape(shape)


def result(outputs: tuple[np.ndarray, ...], counters: tuple[int, int, int]) -> Result:
    """The Result from its fields in order; roots are given as words, and become scalars for a single row."""
    top, low, mask, root_max, root_min, max_valid, min_valid = outputs
    return Result(
        top,
        low,
        mask,
        root_max.view(np.float16)[()],
        root_min.view(np.float16)[()],
        max_valid[()],
        min_valid[()],
        *counters,
    )


def run_ports(x: Any, *, n: int, k: int, total_order: bool = False, min_leaf: str = "not_max") -> Result:
    """`run` between the ports: x (..., n) words, the Result in words."""
    device = Orizuru(n, k, total_order, min_leaf)
    (words,) = admit(device.name, device.ports.inputs, (x,))
    return on_ports(run(rows(words, n), k, total_order=total_order, min_leaf=min_leaf), device)


def rows(words: np.ndarray, n: int) -> np.ndarray:
    """Words of port x, whose only lane has no axis, as float16 (..., n)."""
    return fp16.values(words if n > 1 else words[..., None])


def on_ports(answer: Result, device: Orizuru) -> Result:
    """`answer` in words of the output ports."""
    words: dict[str, Any] = {}
    for port in device.ports.outputs:
        array = np.asarray(getattr(answer, port.name))
        array = array.view(np.uint16) if array.dtype == np.float16 else array.astype(port.result_dtype)
        several = port.name in ("max_index", "min_index", "outlier_mask")
        words[port.name] = array[..., 0] if several and port.lanes == 1 else array
    return replace(answer, **words)


def ports(config: Mapping[str, Any]) -> Ports:
    """Widths in one configuration."""
    n, k = config["n"], config["k"]
    popped = (
        [
            Port(f"{tree}_index", max(1, (n - 1).bit_length()), k, meaning=f"elements popped by the {tree} tree")
            for tree in TREES
        ]
        if k
        else []
    )
    return Ports(
        inputs=(Port("x", 16, n, encoding="f16", meaning="values of the shared leaves"),),
        outputs=(
            *popped,
            Port("outlier_mask", 1, n, meaning="popped by either tree"),
            Port("root_max", 16, encoding="f16", meaning="the largest value left"),
            Port("root_min", 16, encoding="f16", meaning="the smallest value left"),
            Port("root_max_valid", 1, meaning="the max tree is not empty"),
            Port("root_min_valid", 1, meaning="the min tree is not empty"),
        ),
    )


def cases(config: Config, kind: str, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind; see orizuru_cases.py."""
    return orizuru_cases.cases(config, ports(config).inputs, kind, seed)


UNIT = Unit(
    name="orizuru",
    paper="kllm §IV-C, Fig. 7",
    meaning="the k largest and the k smallest of n values, by two trees",
    configs={
        "n8": Config(n=8, k=2, total_order=False, min_leaf="not_max"),
        "n11_drained": Config(n=11, k=11, total_order=False, min_leaf="not_max"),
        "n16_total_order": Config(n=16, k=3, total_order=True, min_leaf="compare"),
        "n64": Config(n=64, k=4, total_order=False, min_leaf="not_max"),
    },
    ports=ports,
    run=run_ports,
    twin="refemu.units.orizuru_jit:run_ports",
    unit_class=Orizuru,
    cases=cases,
)
