"""Orizuru: pops the k largest and the k smallest of n fp16 values from two trees of bits over the same leaves.

Paper: [kllm §IV-C, Fig. 7, Eq. (4)]. Nodes are numbered as a heap: the root is 1, the children of h are 2h and 2h + 1,
leaf i is size + i (node 14 of Fig. 7 is x[6]). Level l holds the registers 2^(l-1) to 2^l - 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, reject, require_choice, require_int
from refemu.units import Changes, Combinational, Config, Port, Ports, RunFunction, Unit, constant, decides, stepping
from refemu.units.declaration import DeclaredState
from refemu.units.kllm.orizuru import trees
from refemu.units.kllm.orizuru.trees import FIELDS, MAX, MIN, Tree, better, levels, trees_of, units_needed
from refemu.units.ports import Lanes, put, validate

#: Source of the lowest bits of the min tree: the max tree's, inverted, or comparisons (D-kllm-21)
MinLeaf = Literal["not_max", "compare"]
MIN_LEAVES: tuple[MinLeaf, ...] = get_args(MinLeaf)  #: the options of `MinLeaf`
#: Events of the max tree and of the min tree
SETS, POPS, REPAIRS = ("init_max", "init_min"), ("pop_max", "pop_min"), ("maintain_max", "maintain_min")


def _no_pops() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Popped(stepping.Result):
    """Elements popped from both trees, in words; shapes are for x (n,), leading axes of x come first.

    Counters are totals. From `pops` and `orizuru_passes.search` indices are int64 and roots float16.
    """

    max_index: np.ndarray = field(default_factory=_no_pops)  #: (k,), in pop order
    min_index: np.ndarray = field(default_factory=_no_pops)  #: (k,), in pop order
    outlier_mask: np.ndarray  #: bool (n,)
    root_max: np.ndarray | np.float16  #: the largest value not popped by the max tree, if root_max_valid
    root_min: np.ndarray | np.float16  #: the smallest value not popped by the min tree, if root_min_valid
    root_max_valid: np.ndarray | np.bool_  #: bool
    root_min_valid: np.ndarray | np.bool_  #: bool


R = TypeVar("R", bound=Popped)


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(Popped):
    """Outputs of a run, and its registers."""

    node: np.ndarray | None = None  #: None from `pops`, like the registers that follow
    k: np.ndarray | None = None
    p: np.ndarray | None = None
    q: np.ndarray | None = None
    p_mask: np.ndarray | None = None
    q_mask: np.ndarray | None = None
    comparisons: int
    comparisons_live: int
    cycles: int


@lru_cache(maxsize=1024)
def interface(n: int, k: int) -> Ports:
    """Ports of trees over n values, each popped k times."""
    nodes, index = (1 << levels(n)) - 1, max(1, (n - 1).bit_length())
    popped = [
        Port(name, index, k, meaning=f"elements popped by the {tree} tree")
        for name, tree in (("max_index", "max"), ("min_index", "min"))
        if k
    ]
    root = "value at the root: the {} remaining one, after the path above the last pop is repaired"
    bit = "bit h - 1 is node h of the {} tree, node 1 the root: 1 if its right child is the {} one"
    return Ports(
        inputs=(Port("x", 16, n, encoding="f16", meaning="values of the shared leaves"),),
        outputs=(
            *popped,
            Port("outlier_mask", 1, n, meaning="elements popped by either tree"),
            Port("root_max", 16, encoding="f16", meaning=root.format("largest")),
            Port("root_min", 16, encoding="f16", meaning=root.format("smallest")),
            Port("root_max_valid", 1, meaning="the max tree is not empty"),
            Port("root_min_valid", 1, meaning="the min tree is not empty"),
        ),
        state=(
            Port("node", levels(n) + 1, meaning="leaf popped last, register set last, or first of the level set last"),
            Port("k", max(1, n.bit_length()), meaning="pops of each tree"),
            Port("p", 1, nodes, meaning=bit.format("max", "larger")),
            Port("q", 1, nodes, meaning=bit.format("min", "smaller")),
            Port("p_mask", 1, n, meaning="1: the element is available in the max tree"),
            Port("q_mask", 1, n, meaning="1: the element is available in the min tree"),
        ),
    )


class Orizuru(Combinational):
    """Orizuru: an operation is a load, the levels of both trees, and pops with their repairs."""

    name = "orizuru"
    events: ClassVar[tuple[str, ...]] = ("load", *SETS, *POPS, *REPAIRS)
    counters: ClassVar[dict[str, str]] = {
        "comparisons": "uses of a comparator, one for each register set; none where the lowest level of the min tree "
        "takes the inverted bits of the max tree",
        "comparisons_live": "uses of a comparator with an available value on both sides; the others meet a popped leaf "
        "or padding",
        "cycles": "one for each level set, pop and repair of the max tree; the min tree works in parallel, and a load "
        "costs none",
    }
    registers: ClassVar[dict[str, str]] = {"phase": "number of the last event in its operation, from 0"}
    n: Annotated[int, 1, 1 << 24]  #: inputs, 1 to 2**24
    k: int = 1  #: pops of each tree, 0 to n, unless `load` says otherwise
    total_order: bool = False  #: compare integer keys, so that -0 < +0 and NaN is beyond infinity
    min_leaf: MinLeaf = "not_max"  #: source of the lowest bits of the min tree (D-kllm-21)

    def check(self) -> None:
        require_int(self.k, 0, self.n, self.name, "k")

    @constant
    def levels(self) -> int:
        """Levels of a tree."""
        return levels(self.n)

    @constant
    def size(self) -> int:
        """Leaves, padding included."""
        return 1 << self.levels

    @constant
    def ports(self) -> Ports:
        return interface(self.n, self.k)

    @constant
    def initial(self) -> Mapping[str, Any]:
        return self._loaded((0,) * self.n, self.k)

    @constant
    def units(self) -> int:
        """Number of 16-input units that make up the tree [kllm Table I]."""
        return units_needed(self.n)

    @property
    def last(self) -> int:
        """The number of the last event of an operation: a load, the levels of both trees, and pops with repairs."""
        return 2 * self.levels + 2 * self.state.k * (1 + self.levels)

    @property
    def busy(self) -> bool:
        """Whether events of the operation remain."""
        return self.state.event != "reset" and self.state.phase < self.last

    @decides("D-kllm-23")
    def follows(self) -> str:
        """The next event: the levels of both trees, then their pops, each followed by a repair of every level."""
        phase = self.state.phase
        if phase < 2 * self.levels:
            return SETS[phase // self.levels]
        pop, above = divmod(phase - 2 * self.levels, 1 + self.levels)
        return (REPAIRS if above else POPS)[pop // self.state.k]

    def load(self, x: ArrayLike, k: int | None = None) -> DeclaredState:
        """Load `x`, float16 values or their words (n,), into the leaves of both trees; k: 0 to n pops of each tree.

        Raises Refused for a NaN without a total order or `k` out of range, RefusedType for a wrong dtype or shape.
        """
        pops = require_int(self.k if k is None else k, 0, self.n, self.name, "k")
        return self._load(self.validate_event(_words(x))[0], pops)

    def _load(self, x: Lanes, k: int) -> DeclaredState:
        self._commit("load", (x,), self._loaded(x, k))
        self._enter()
        return self.state

    def _open(self, *inputs: Any) -> DeclaredState:
        return self._load(inputs[0], self.k)

    @decides("D-kllm-25")
    def _loaded(self, words: Sequence[int], k: int) -> Changes:
        """Registers after a load. Padding is never available."""
        bits, mask, none = (0,) * (self.size - 1), (1,) * self.n, (0,) * k if k else ()
        return {
            "phase": 0,
            "node": 0,
            "k": k,
            "outlier_mask": (0,) * self.n,
            **dict(zip(FIELDS[MAX], (bits, mask, none, words[0], 1), strict=True)),
            **dict(zip(FIELDS[MIN], (bits, mask, none, words[0], 1), strict=True)),
        }

    def _enter(self) -> None:
        """Keys of the leaves of the State; ports have a lane for each of its pops."""
        words = np.array(self.state.x, np.uint16)
        self._keys: list[int] = fp16.order_key(words, self.total_order).tolist() + [0] * (self.size - self.n)
        self.ports = interface(self.n, self.state.k)

    def restore(self, state: DeclaredState) -> None:
        """Restore a State, also one with another number of pops."""
        if type(state) is type(self.state):
            self.ports = interface(self.n, state.k)
        try:
            super().restore(state)
        finally:
            self._enter()

    def init_max(self) -> Changes:
        """Set one level of the max tree, the lowest first, by comparisons."""
        return self._initialised(MAX, self._level)

    def init_min(self) -> Changes:
        """Set one level of the min tree, the lowest first, by comparisons or from the bits of the max tree."""
        return self._initialised(MIN, self._level)

    def pop_max(self) -> Changes:
        """Pop the value at the root, the largest remaining one, from the max tree."""
        return self._popped(MAX, self._slot)

    def pop_min(self) -> Changes:
        """Pop the value at the root, the smallest remaining one, from the min tree."""
        return self._popped(MIN, self._slot)

    def maintain_max(self) -> Changes:
        """Repair one register on the path from the popped leaf to the root of the max tree."""
        return self._maintained(MAX)

    def maintain_min(self) -> Changes:
        """Repair one register on the path from the popped leaf to the root of the min tree."""
        return self._maintained(MIN)

    @property
    def _level(self) -> int:
        """The next level to set."""
        return self.levels - self.state.phase % self.levels

    @property
    def _slot(self) -> int:
        """Number of the next pop in its tree."""
        pop: int = (self.state.phase - 2 * self.levels) // (1 + self.levels)
        return pop % self.state.k

    @decides("D-kllm-21")
    def _initialised(self, tree: int, level: int) -> Changes:
        """Set every register of one level; the lowest one of the min tree without comparing."""
        both, first, live = trees_of(self.state), 1 << (level - 1), 0
        bits, alive = list(both[tree].bits), both[tree].alive
        reuse = tree == MIN and level == self.levels and self.min_leaf == "not_max"
        for node in range(first, 2 * first):
            bits[node - 1], two = self._better(tree, bits, alive, node)
            if reuse and two:
                bits[node - 1] = 1 - both[MAX].bits[node - 1]
            live += two
        after = both[tree]._replace(bits=tuple(bits))
        return self._changed(tree, first, after) if reuse else self._changed(tree, first, after, first, live)

    @decides("D-kllm-22")
    def _popped(self, tree: int, slot: int) -> Changes:
        """Follow the path of bits from the root to the leaf; its value stays, its mask bit is cleared."""
        before = trees_of(self.state)[tree]
        leaf = self._leaf(before.bits, 1)
        after = Tree(before.bits, put(before.alive, leaf, 0), put(before.popped, slot, leaf))
        return self._masked(leaf) | self._changed(tree, self.size + leaf, after)

    def _masked(self, leaf: int) -> dict[str, Any]:
        """Enter a popped leaf into the mask of both trees."""
        return {"outlier_mask": put(self.state.outlier_mask, leaf, 1)}

    def _maintained(self, tree: int) -> Changes:
        """Repair the parent of the last change."""
        before, node = trees_of(self.state)[tree], self.state.node >> 1
        bit, both = self._better(tree, before.bits, before.alive, node)
        return self._changed(tree, node, before._replace(bits=put(before.bits, node - 1, bit)), 1, both)

    def _changed(self, tree: int, node: int, after: Tree, used: int = 0, live: int = 0) -> dict[str, Any]:
        """Changes of an event that leaves one tree in this state. used, live: comparisons."""
        registers = tuple(after.bits), tuple(after.alive[: self.n]), tuple(after.popped) if after.popped else ()
        return {
            **dict(zip(FIELDS[tree], (*registers, *self._root(tree, after)), strict=True)),
            "node": node,
            "phase": self.state.phase + 1,
            "comparisons": used,
            "comparisons_live": live,
            "cycles": int(tree == MAX),
        }

    def _root(self, tree: int, registers: Tree) -> tuple[int, int]:
        """Word at the root of a tree, and whether it is available."""
        leaf = self._leaf(registers.bits, 1)
        return self.state.x[leaf], registers.alive[leaf]

    def _leaf(self, bits: Sequence[int], node: int) -> int:
        """The multiplexers of [kllm Eq. (4)]: the element that `node` passes on."""
        while 0 < node < self.size:  # 0 only in a device that misses a reset
            node = 2 * node + bits[node - 1]
        return node - self.size

    @decides("D-kllm-21", "D-kllm-22")
    def _better(self, tree: int, bits: Sequence[int], alive: Sequence[int], node: int) -> tuple[int, int]:
        """Bit of `node`, and whether both its sides were available."""
        left, right = self._leaf(bits, 2 * node), self._leaf(bits, 2 * node + 1)
        return better(tree, (alive[left], self._keys[left]), (alive[right], self._keys[right]))

    def steps(self, x: ArrayLike, k: int | None = None) -> Iterator[DeclaredState]:
        """Yield the State after every event of every operation; x: float16 or words (..., n), k as for `load`."""
        (words,) = validate(self.name, self.ports.inputs, (_words(x),))
        for row in words.reshape(-1, self.n).tolist():
            yield self.load(tuple(row), k)
            while self.busy:
                yield self._continue()

    @decides("D-kllm-27")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject NaN unless the order is total."""
        (x,) = inputs
        require_ordered(x, self.total_order)

    def draw(self, state: DeclaredState) -> str:
        """Draw both trees as text, the max tree above the leaves and the min tree below, as in [kllm Fig. 7(a)]."""
        return trees.draw(self.size, self.n, state)


def _words(x: Any) -> Any:
    """Words of float16 values; everything else is unchanged."""
    return fp16.bits(x) if isinstance(x, np.ndarray) and x.dtype == np.float16 else x


def require_ordered(words: np.ndarray, total_order: bool) -> None:
    """Check that `words` have an order; raises Refused for a NaN without a total order (D-kllm-27). [kllm §IV-C]"""
    if not total_order:
        rule, advice = "orizuru: x must not be NaN", "; set total_order to order it"
        reject(words & 0x7FFF > 0x7C00, rule, "NaN", advice=advice)


def require_input(x: ArrayLike, k: int, min_leaf: MinLeaf) -> tuple[np.ndarray, int]:
    """Words (..., n) of the float16 values `x`, and `k` as an int; raises Refused or RefusedType. [kllm §IV-C]"""
    array = np.asarray(x)
    if array.dtype != np.float16 or array.ndim < 1:
        raise RefusedType(f"orizuru: x must be float16 of shape (n,), got {array.dtype} of shape {array.shape}")
    if not array.shape[-1]:
        raise Refused(f"orizuru: x must have at least one value, got shape {array.shape}")
    require_choice(min_leaf, MIN_LEAVES, "orizuru", "min_leaf")
    return array.view(np.uint16), require_int(k, 0, array.shape[-1], "orizuru", "k")


def pops(x: ArrayLike, k: int, *, total_order: bool = False, min_leaf: MinLeaf = "not_max") -> Result:
    """Pop the k largest and the k smallest elements of every row; show the values left at the roots. [kllm §IV-C]

    x: float16 (..., n). k: 0 to n. total_order and min_leaf are those of `Orizuru`. Raises Refused for a NaN without a
    total order, `k` out of range or an empty row, RefusedType for another dtype or a scalar.
    """
    words, k = require_input(x, k, min_leaf)
    require_ordered(words, total_order)
    answer = run(words, n=words.shape[-1], k=k, total_order=total_order, min_leaf=min_leaf)
    registers: dict[str, Any] = dict.fromkeys(("node", "k", "p", "q", "p_mask", "q_mask"))
    return replace(shaped(answer, words.shape, k), **registers)


def shaped(answer: R, shape: tuple[int, ...], k: int) -> R:
    """The answer for words of a shape (..., n): indices as int64, roots as float16. [kllm §IV-C]"""
    return replace(
        answer,
        max_index=answer.max_index.astype(np.int64).reshape(*shape[:-1], k),
        min_index=answer.min_index.astype(np.int64).reshape(*shape[:-1], k),
        outlier_mask=answer.outlier_mask.reshape(shape),
        root_max=np.asarray(answer.root_max).view(np.float16)[()],
        root_min=np.asarray(answer.root_min).view(np.float16)[()],
        root_max_valid=np.asarray(answer.root_max_valid)[()],
        root_min_valid=np.asarray(answer.root_min_valid)[()],
    )


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=Orizuru,
    paper="kllm §IV-C, Fig. 7",
    meaning="the k largest and the k smallest of n values, by two trees",
    configs={
        "n8": Config(n=8, k=2, total_order=False, min_leaf="not_max"),
        "n11_drained": Config(n=11, k=11, total_order=False, min_leaf="not_max"),
        "n16_total_order": Config(n=16, k=3, total_order=True, min_leaf="compare"),
        "n16": Config(n=16, k=3, total_order=False, min_leaf="not_max"),
        "n64": Config(n=64, k=4, total_order=False, min_leaf="not_max"),
    },
    result=Result,
)
State: type[DeclaredState] = Orizuru.State
run: RunFunction[Result] = UNIT.run
