"""Orizuru: pops the k largest and the k smallest of n fp16 values from two trees of bits over the same leaves.

Paper: [kllm §IV-C, Fig. 7, Eq. (4)]. Nodes are numbered as a heap: the root is 1, the children of h are 2h and 2h + 1,
leaf i is size + i (node 14 of Fig. 7 is x[6]). Level l holds the registers 2^(l-1) to 2^l - 1.
Decisions: D-kllm-21 (ties, and the leaf level of the min tree), D-kllm-22 (a mask, not a value, says what is gone),
D-kllm-23 (the path is repaired after the last pop too), D-kllm-25 (sizes that are no power of two), D-kllm-26 (both
trees may pop one element), D-kllm-27 (NaN is refused, infinities are not).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith import fp16
from refemu.arith.checks import Refused, RefusedType, at, first_index, require_choice, require_int
from refemu.units import stepped
from refemu.units.kllm.cases import orizuru as orizuru_cases
from refemu.units.kllm.orizuru import trees
from refemu.units.kllm.orizuru.trees import MAX, MIN, TREES, better, levels, units_needed
from refemu.units.ports import Lanes, Port, Ports, admit, fields, lanes
from refemu.units.stepped import Stepped
from refemu.units.unit import Config, RunFunction, Unit

#: Source of the lowest bits of the min tree: the max tree's, inverted, or comparisons (D-kllm-21)
MinLeaf = Literal["not_max", "compare"]
MIN_LEAVES: tuple[MinLeaf, ...] = get_args(MinLeaf)  #: the options of `MinLeaf`


class Tree(NamedTuple):
    """Registers of one tree."""

    bits: bytes  #: of node h at [h]: 1 = its right child is the better one; [0] is not used
    alive: bytes  #: of leaf i at [i]: 1 = available, 0 = popped or padding


@dataclass(frozen=True)
class State:
    """Ports and registers after one event, and what happened since reset."""

    #: "reset": no values yet; "load": the values go into the leaves that both trees share; "init_max", "init_min": one
    #: level of the max or the min tree is set, the lowest first, by comparisons or, in the min tree, from the bits of
    #: the max tree; "pop_max", "pop_min": the value at the root, the largest or smallest that is left, leaves that
    #: tree; "maintain_max", "maintain_min": one register on the path from the popped leaf to the root is set anew;
    #: "idle", in the clocked form alone: no operation is under way
    event: str
    #: number of the event in its operation, in the clocked form of the clock edge since reset, from 0; -1 at reset
    index: int
    node: int  #: popped leaf, repaired register, or first register of the level just set; 0 where there is none
    k: int  #: pops of each tree
    x: Lanes  #: words
    max_index: Lanes  #: elements popped by the max tree so far, 0 where a pop is still to come
    min_index: Lanes  #: the same of the min tree
    outlier_mask: Lanes  #: popped by either tree
    root_max: int  #: word that leaves the max tree; of element 0 once all are popped
    root_min: int  #: the same of the min tree
    root_max_valid: int  #: 1 while the max tree has an available leaf
    root_min_valid: int  #: the same of the min tree
    p: Lanes  #: bits of the max tree: lane h - 1 is node h, 1 = its right child is the better one
    q: Lanes  #: the same of the min tree
    p_mask: Lanes  #: 1 while an element is available in the max tree
    q_mask: Lanes  #: the same of the min tree
    #: uses of a comparator, one for each register set; none where the lowest level of the min tree takes the inverted
    #: bits of the max tree
    comparisons: int
    #: uses of a comparator with an available value on both sides; the others meet a popped leaf or padding
    comparisons_live: int
    #: one for each level set, pop and repair of the max tree; the min tree works beside it, and a load costs none
    cycles: int

    @property
    def trees(self) -> tuple[Tree, Tree]:
        """Registers of the max tree and of the min tree, padding included."""
        return _tree(self.p, self.p_mask), _tree(self.q, self.q_mask)


def _tree(bits: Lanes, mask: Lanes) -> Tree:
    nodes, available = (0, *fields(bits)), fields(mask)
    return Tree(bytes(nodes), bytes(available) + bytes(len(nodes) - len(available)))


def _no_pops() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(stepped.Result):
    """Outputs of a run, in words; shapes are for x (n,), leading axes of x come first.

    Counters are totals. From `pops` indices are int64 and roots float16.
    """

    max_index: np.ndarray = field(default_factory=_no_pops)  #: (k,), in pop order
    min_index: np.ndarray = field(default_factory=_no_pops)  #: (k,), in pop order
    outlier_mask: np.ndarray  #: bool (n,)
    root_max: np.ndarray | np.float16  #: the largest value not popped by the max tree, if root_max_valid
    root_min: np.ndarray | np.float16  #: the smallest value not popped by the min tree, if root_min_valid
    root_max_valid: np.ndarray | np.bool_  #: bool
    root_min_valid: np.ndarray | np.bool_  #: bool
    node: np.ndarray | None = None  #: None from `pops`, like the registers that follow
    k: np.ndarray | None = None
    p: np.ndarray | None = None
    q: np.ndarray | None = None
    p_mask: np.ndarray | None = None
    q_mask: np.ndarray | None = None
    comparisons: int
    comparisons_live: int
    cycles: int


class Orizuru(Stepped[State]):
    """Orizuru: an operation is a load, the levels of both trees, and pops with their repairs.

    References
    ----------
    [kllm §IV-C, Fig. 7]
    """

    name = "orizuru"
    state: State

    def __init__(self, n: int, k: int = 1, total_order: bool = False, min_leaf: MinLeaf = "not_max") -> None:
        """Configure the trees.

        Parameters
        ----------
        n : int
            Inputs, 1 to 2**24.
        k : int
            Pops of each tree, 0 to n, unless `load` says otherwise.
        total_order : bool
            Compare integer keys, so that -0 < +0 and NaN lies beyond infinity.
        min_leaf : {"not_max", "compare"}
            "not_max" reuses the max tree's comparisons (D-kllm-21).

        Raises
        ------
        Refused
            A parameter is out of range or an option unknown.
        """
        self.n: int = require_int(n, 1, 1 << 24, self.name, "n")
        self.k: int = require_int(k, 0, self.n, self.name, "k")
        self.total_order: bool = bool(total_order)
        self.min_leaf = require_choice(min_leaf, MIN_LEAVES, self.name, "min_leaf")
        self.levels: int = levels(self.n)
        self.size: int = 1 << self.levels  #: leaves, padding included
        self.ports: Ports = ports({"n": self.n, "k": self.k})
        self._keys: list[int] = []
        #: of each tree the lanes of `State` that the last event made, and their registers
        self._latest: dict[int, tuple[Lanes, Lanes, Tree]] = {}
        self._enter(self._fresh((0,) * self.n, self.k))

    @property
    def units(self) -> int:
        """Number of 16-input units that make up the tree [kllm Table I]."""
        return units_needed(self.n)

    @property
    def last(self) -> int:
        """Number of the last event of an operation."""
        return last_event(self.n, self.state.k)

    @property
    def busy(self) -> bool:
        """Whether events of the operation are left."""
        return 0 <= self.state.index < self.last

    def load(self, x: ArrayLike, k: int | None = None) -> State:
        """Latch n values and schedule the pops of each tree.

        Parameters
        ----------
        x : array_like of float16 or uint16 (n,)
            Values or their words.
        k : int, optional
            Pops of each tree, 0 to n; by default that of the constructor.

        Returns
        -------
        State
            Registers after the load.

        Raises
        ------
        Refused
            A NaN without a total order, or `k` out of range.
        RefusedType
            A dtype or shape is wrong.
        """
        pops = require_int(self.k if k is None else k, 0, self.n, self.name, "k")
        return self._load(fields(self.accept(_words(x))[0]), pops)

    def _load(self, words: tuple[int, ...], k: int) -> State:
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
        bits, mask = lanes((0,) * (self.size - 1)), lanes((1,) * self.n)  # padding is never available (D-kllm-25)
        none = lanes((0,) * k) if k else ()
        return self.reset(
            State,
            k=k,
            x=lanes(words),
            max_index=none,
            min_index=none,
            root_max=words[0],
            root_min=words[0],
            root_max_valid=1,
            root_min_valid=1,
            p=bits,
            q=bits,
            p_mask=mask,
            q_mask=mask,
        )

    def _enter(self, state: State) -> None:
        """Commit `state`; the ports are as wide as its pops are many."""
        keys = fp16.order_key(np.array(fields(state.x), np.uint16), self.total_order)
        self.state, self._keys = state, keys.tolist() + [0] * (self.size - self.n)
        self.ports = ports({"n": self.n, "k": state.k})

    def restore(self, state: State) -> None:
        """Restore every register to its value when `state` was taken.

        Parameters
        ----------
        state : State
            A State of this unit.

        Raises
        ------
        Refused
            A port of the State is out of range.
        RefusedType
            The State is not this unit's.
        """
        if isinstance(state, State):
            self.ports = ports({"n": self.n, "k": state.k})
        try:
            super().restore(state)
        finally:
            self._enter(self.state)

    def step(self, x: Sequence[int] | int | None = None) -> State:
        """Load the words `x`; without inputs, execute the next event of the operation."""
        return self._stepped(x=None if x is None else _words(x))

    def _open(self, x: Any) -> State:
        return self._load(fields(x), self.k)

    def _continue(self) -> State:
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
        bits, alive = bytearray(self._tree(before, tree).bits), self._tree(before, tree).alive
        reuse, maxima = (
            tree == MIN and level == self.levels and self.min_leaf == "not_max",
            self._tree(before, MAX).bits,
        )
        first, used, live = 1 << (level - 1), 0, 0
        for node in range(first, 2 * first):
            bits[node], both = self._better(tree, bits, alive, node)
            if reuse and both:
                bits[node] = 1 - maxima[node]
            used, live = used + (not reuse), live + (both and not reuse)
        return self._changed(before, "init", tree, first, Tree(bytes(bits), alive), used, live)

    def _popped(self, before: State, tree: int, slot: int) -> State:
        """The path of bits from the root names the leaf; its value stays, its mask bit goes (D-kllm-22)."""
        bits, alive = self._tree(before, tree).bits, bytearray(self._tree(before, tree).alive)
        leaf = self._leaf(bits, 1)
        alive[leaf] = 0
        after = self._changed(before, "pop", tree, self.size + leaf, Tree(bits, bytes(alive)), 0, 0)
        return self._listed(after, tree, slot, leaf)

    @staticmethod
    def _listed(state: State, tree: int, slot: int, leaf: int) -> State:
        """Enter a popped leaf into the list of its tree and the mask."""
        popped, mask = list(fields(getattr(state, f"{TREES[tree]}_index"))), list(fields(state.outlier_mask))
        popped[slot], mask[leaf] = leaf, 1
        changed: dict[str, Any] = {f"{TREES[tree]}_index": lanes(popped)}
        return replace(state, outlier_mask=lanes(mask), **changed)

    def _maintained(self, before: State, tree: int) -> State:
        """Repair the parent of what changed last."""
        bits, alive = bytearray(self._tree(before, tree).bits), self._tree(before, tree).alive
        node = before.node >> 1
        bits[node], both = self._better(tree, bits, alive, node)
        return self._changed(before, "maintain", tree, node, Tree(bytes(bits), alive), 1, both)

    def _changed(self, before: State, what: str, tree: int, node: int, now: Tree, used: int, live: int) -> State:
        return replace(
            before,
            event=f"{what}_{TREES[tree]}",
            node=node,
            comparisons=before.comparisons + used,
            comparisons_live=before.comparisons_live + live,
            **self._registers(tree, now),
        )

    def _tree(self, state: State, tree: int) -> Tree:
        """Registers of one tree; those that the last event made are not read from thousands of lanes again."""
        bits, mask = (state.p, state.p_mask) if tree == MAX else (state.q, state.q_mask)
        latest = self._latest.get(tree)
        return latest[2] if latest and latest[0] is bits and latest[1] is mask else _tree(bits, mask)

    def _registers(self, tree: int, now: Tree) -> dict[str, Any]:
        """Fields of a State that hold the registers of one tree; bits or a mask that an event leaves are shared."""
        bits, mask, before = self._latest.get(tree, (0, 0, None))
        if before is None or now.bits is not before.bits:
            bits = lanes(tuple(now.bits[1:]))
        if before is None or now.alive is not before.alive:
            mask = lanes(tuple(now.alive[: self.n]))
        self._latest[tree] = bits, mask, now
        name = "pq"[tree]
        return {name: bits, f"{name}_mask": mask}

    def _with_roots(self, state: State) -> State:
        both = [self._tree(state, tree) for tree in (MAX, MIN)]
        leaves = [self._leaf(tree.bits, 1) for tree in both]
        words, valid = fields(state.x), [tree.alive[leaf] for tree, leaf in zip(both, leaves, strict=True)]
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

    def steps(self, x: ArrayLike, k: int | None = None) -> Iterator[State]:
        """Yield the State after every event of every operation.

        Parameters
        ----------
        x : array_like of float16 or uint16 (..., n)
            Values or their words.
        k : int, optional
            Pops of each tree, as for `load`.

        Returns
        -------
        iterator of State
            States in C order of the rows.

        Raises
        ------
        Refused
            As `load` does.
        """
        (words,) = admit(self.name, self.ports.inputs, (_words(x),))
        for row in words.reshape(-1, self.n).tolist():
            yield self.load(lanes(row), k)
            while self.busy:
                yield self.step()

    def _require(self, *inputs: np.ndarray) -> None:
        """Refuse NaN unless the order is total (D-kllm-27)."""
        (x,) = inputs
        require_ordered(x if self.n > 1 else x[..., None], self.total_order)

    def draw(self, state: State) -> str:
        """Draw both trees as text, the max tree above the leaves and the min tree below them, as [kllm Fig. 7(a)].

        Parameters
        ----------
        state : State
            Registers to draw.

        Returns
        -------
        str
            Several lines.
        """
        return trees.draw(self.size, self.n, state)


def _words(x: Any) -> Any:
    """Words of values that are float16, everything else as it is."""
    return fp16.bits(x) if isinstance(x, np.ndarray) and x.dtype == np.float16 else x


def require_ordered(words: np.ndarray, total_order: bool) -> None:
    """Check that fp16 words can be ordered.

    Parameters
    ----------
    words : ndarray of uint16
        fp16 words.
    total_order : bool
        Whether NaN has a place in the order.

    Raises
    ------
    Refused
        A NaN without a total order, with its index (D-kllm-27).

    References
    ----------
    [kllm §IV-C]
    """
    nan = words & 0x7FFF > 0x7C00
    if nan.any() and not total_order:
        raise Refused(f"orizuru: x must hold no NaN, got one{at(first_index(nan))}")


def require_input(x: ArrayLike, k: int, min_leaf: MinLeaf) -> tuple[np.ndarray, int]:
    """Check the inputs of `pops`.

    Parameters
    ----------
    x : array_like of float16 (..., n)
        At least one value a row.
    k : int
        Pops, 0 to n.
    min_leaf : str
        An option of `MinLeaf`.

    Returns
    -------
    words : ndarray of uint16 (..., n)
        fp16 words of x.
    k : int
        `k` as Python's int.

    Raises
    ------
    Refused
        `k` is out of range, the option unknown, or a row empty.
    RefusedType
        `x` is not float16, or a scalar.

    References
    ----------
    [kllm §IV-C]
    """
    array = np.asarray(x)
    if array.dtype != np.float16 or array.ndim < 1:
        raise RefusedType(f"orizuru: x must be float16 of shape (n,), got {array.dtype} of shape {array.shape}")
    if not array.shape[-1]:
        raise Refused(f"orizuru: x must hold at least one value, got shape {array.shape}")
    require_choice(min_leaf, MIN_LEAVES, "orizuru", "min_leaf")
    return array.view(np.uint16), require_int(k, 0, array.shape[-1], "orizuru", "k")


def pops(x: ArrayLike, k: int, *, total_order: bool = False, min_leaf: MinLeaf = "not_max") -> Result:
    """Pop the k largest and the k smallest elements of every row, and show what is left at the roots.

    Parameters
    ----------
    x : array_like of float16 (..., n)
        No NaN unless `total_order`.
    k : int
        Pops of each tree, 0 to n.
    total_order : bool
        Compare integer keys, so that -0 < +0 and NaN lies beyond infinity.
    min_leaf : {"not_max", "compare"}
        Source of the lowest bits of the min tree.

    Returns
    -------
    Result
        Indices in pop order, mask, roots, and counters.

    Raises
    ------
    Refused
        A NaN without a total order, `k` out of range, or an empty row.
    RefusedType
        `x` is not float16, or a scalar.

    References
    ----------
    [kllm §IV-C]
    """
    words, k = require_input(x, k, min_leaf)
    require_ordered(words, total_order)
    shape, n = words.shape[:-1], words.shape[-1]
    answer = run(words if n > 1 else words[..., 0], n=n, k=k, total_order=total_order, min_leaf=min_leaf)
    return replace(
        answer,
        node=None,
        k=None,
        p=None,
        q=None,
        p_mask=None,
        q_mask=None,
        max_index=answer.max_index.astype(np.int64).reshape(*shape, k),
        min_index=answer.min_index.astype(np.int64).reshape(*shape, k),
        outlier_mask=answer.outlier_mask.reshape(words.shape),
        root_max=np.asarray(answer.root_max).view(np.float16)[()],
        root_min=np.asarray(answer.root_min).view(np.float16)[()],
        root_max_valid=np.asarray(answer.root_max_valid)[()],
        root_min_valid=np.asarray(answer.root_min_valid)[()],
    )


def last_event(n: int, k: int) -> int:
    """Number of the last event of an operation: a load, the levels of both trees, and pops with their repairs.

    Parameters
    ----------
    n : int
        Inputs.
    k : int
        Pops of each tree.

    Returns
    -------
    int
        Number.

    References
    ----------
    [kllm §IV-C]
    """
    return 2 * levels(n) + 2 * k * (1 + levels(n))


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
            Port("root_max", 16, encoding="f16", meaning=_root("largest")),
            Port("root_min", 16, encoding="f16", meaning=_root("smallest")),
            Port("root_max_valid", 1, meaning="the max tree is not empty"),
            Port("root_min_valid", 1, meaning="the min tree is not empty"),
        ),
        state=(
            Port("node", levels(n) + 1, meaning="leaf popped last, register set last, or first of the level set last"),
            Port("k", max(1, n.bit_length()), meaning="pops of each tree"),
            *(Port(name, 1, (1 << levels(n)) - 1, meaning=_bit(tree)) for name, tree in zip("pq", TREES, strict=True)),
            *(
                Port(f"{name}_mask", 1, n, meaning=f"1: the element is available in the {tree} tree")
                for name, tree in zip("pq", TREES, strict=True)
            ),
        ),
    )


def _root(which: str) -> str:
    """Meaning of the value at a root."""
    return f"value at the root: the {which} one left, once the path above the last pop is set again"


def _bit(tree: str) -> str:
    """Meaning of the bits of a tree."""
    better = {"max": "larger", "min": "smaller"}[tree]
    return f"bit h - 1 is node h of the {tree} tree, node 1 its root: 1 if its right child is the {better} one"


UNIT: Unit[State, Result] = Unit(
    name="orizuru",
    paper="kllm §IV-C, Fig. 7",
    meaning="the k largest and the k smallest of n values, by two trees",
    configs={
        "n8": Config(n=8, k=2, total_order=False, min_leaf="not_max"),
        "n11_drained": Config(n=11, k=11, total_order=False, min_leaf="not_max"),
        "n16_total_order": Config(n=16, k=3, total_order=True, min_leaf="compare"),
        "n16": Config(n=16, k=3, total_order=False, min_leaf="not_max"),
        "n64": Config(n=64, k=4, total_order=False, min_leaf="not_max"),
    },
    ports=ports,
    unit_class=Orizuru,
    cases=orizuru_cases.cases,
    counters=("comparisons", "comparisons_live", "cycles"),
    result=Result,
)
run: RunFunction[Result] = UNIT.run
