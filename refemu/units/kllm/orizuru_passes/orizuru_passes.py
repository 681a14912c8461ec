"""Tokens wider than Orizuru, in passes: a last pass over the extremes of every chunk, as if the tree had n inputs.

Paper: [kllm §IV-C; Table I]: 273 units take 4,096 values, the paper's models have tokens of up to 14,336. Composed of
the array of 16-input units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refemu.arith.checks import Refused, require_int
from refemu.units import Changes, Combinational, Config, Port, Ports, RunFunction, Unit, constant, decides
from refemu.units.declaration import DeclaredState
from refemu.units.kllm import orizuru
from refemu.units.kllm.orizuru import CandidateArray, MinLeaf, OrizuruArray
from refemu.units.ports import Lanes

__all__ = ["UNIT", "OrizuruPasses", "Result", "State", "run", "search"]

MAX, MIN = 0, 1  #: the two trees


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(orizuru.Popped):
    """Outputs of a run."""

    passes_taken: np.ndarray  #: passes of each token
    cycles_taken: np.ndarray  #: cycles of each token
    comparisons: int
    comparisons_live: int
    cycles: int
    passes: int


class Ends(NamedTuple):
    """Elements that survive a pass in either tree: those popped, in order, and the one at the root."""

    popped: tuple[list[int], list[int]]
    root: tuple[list[int], list[int]]  #: one element; none if the tree is empty

    def candidates(self, tree: int) -> list[int]:
        """Elements for the next pass."""
        return self.popped[tree] + self.root[tree]


class Counts(NamedTuple):
    """Work of one pass, or of several."""

    comparisons: int = 0
    comparisons_live: int = 0
    cycles: int = 0
    passes: int = 0


class OrizuruPasses(Combinational):
    """Orizuru for tokens of any width; an event is a token."""

    name = "orizuru_passes"
    events: ClassVar[tuple[str, ...]] = ("search",)
    counters: ClassVar[dict[str, str]] = {
        "comparisons": "uses of a comparator in all passes",
        "comparisons_live": "uses of a comparator with an available value on both sides; the others meet a popped leaf "
        "or padding",
        "cycles": "cycles of all passes, one pass after the other: one for each level set, pop and repair of the max "
        "tree",
        "passes": "passes: loads of the tree, one for a token that fits into it",
    }
    n: Annotated[int, 1, 1 << 24]  #: values of a token, 1 to 2**24
    k: int = 1  #: pops of each tree, 0 to n; at most `inputs` - 2 if a token takes several passes
    inputs: Annotated[int, 2, 1 << 24] = 4096  #: values that the tree takes in a pass, an even number from 2 to 2**24
    total_order: bool = False  #: compare integer keys, so that -0 < +0 and NaN is beyond infinity
    min_leaf: MinLeaf = "not_max"  #: source of the lowest bits of the min tree in a pass over values of the token

    def check(self) -> None:
        require_int(self.k, 0, self.n, self.name, "k")
        if self.inputs % 2:
            raise Refused(f"{self.name}: inputs must be even, so that no pair is cut, got {self.inputs}")
        if self.n > self.inputs and self.k > self.inputs - 2:
            most = f"at most {self.inputs - 2} for {self.n} values in passes of {self.inputs}"
            raise Refused(f"{self.name}: k must be {most}, got {self.k}")

    @constant
    def ports(self) -> Ports:
        trees = orizuru.UNIT.ports(Config(n=self.n, k=self.k))
        taken = (
            Port("passes_taken", 24, meaning="passes of the token"),
            Port("cycles_taken", 40, meaning="cycles of all passes of the token"),
        )
        return Ports(trees.inputs, (*trees.outputs, *taken))

    @constant
    def initial(self) -> Mapping[str, Any]:
        """Ports; without pops none for popped elements."""
        return {} if self.k else {"max_index": (), "min_index": ()}

    def search(self, x: Lanes) -> Changes:
        """Search one token for its largest and smallest values, in as many passes as needed."""
        words = x
        self._counts: list[Counts] = []
        last = self._last(words)
        total = Counts(*map(sum, zip(*self._counts, strict=True)))
        chosen = {*last.popped[MAX], *last.popped[MIN]}
        root_max, root_min = (words[root[0]] if root else words[0] for root in last.root)
        return {
            "max_index": tuple(last.popped[MAX]) if self.k else (),
            "min_index": tuple(last.popped[MIN]) if self.k else (),
            "outlier_mask": tuple([int(i in chosen) for i in range(self.n)]),
            "root_max": root_max,
            "root_min": root_min,
            "root_max_valid": len(last.root[MAX]),
            "root_min_valid": len(last.root[MIN]),
            "passes_taken": total.passes,
            "cycles_taken": total.cycles,
            **total._asdict(),
        }

    @decides("D-kllm-60")
    def _last(self, words: Sequence[int]) -> Ends:
        """Passes over chunks until the candidates fit the tree, then the last pass."""
        top = low = list(range(self.n))
        apart = False
        while len(top) > self.inputs:
            chunks = [slice(first, first + self.inputs) for first in range(0, len(top), self.inputs)]
            ends = [self._pass(words, top[chunk], low[chunk], apart) for chunk in chunks]
            top, low = (self._presented([each.candidates(tree) for each in ends]) for tree in (MAX, MIN))
            apart = True
        return self._pass(words, top, low, apart)

    @decides("D-kllm-60", "D-kllm-61")
    def _presented(self, candidates: list[list[int]]) -> list[int]:
        """Candidates for the next pass: chunk by chunk, in the order of their pops."""
        return [element for chunk in candidates for element in chunk]

    @decides("D-kllm-60", "D-kllm-61")
    def _pass(self, words: Sequence[int], top: list[int], low: list[int], apart: bool) -> Ends:
        """Run one pass over the elements `top`; in the min tree over `low`, which is `top` unless `apart`."""
        array = self._array(len(top), apart)
        leaves = [tuple([words[i] for i in elements]) for elements in (top, low)]
        state = array.load_apart(*leaves) if isinstance(array, CandidateArray) else array.load(leaves[MAX])
        while array.busy:
            state = array.step()
        self._counts.append(Counts(state.comparisons, state.comparisons_live, state.cycles, 1))
        popped = [top[i] for i in state.max_index], [low[i] for i in state.min_index]
        root = ([top[array.leaf(MAX)]] * state.root_max_valid, [low[array.leaf(MIN)]] * state.root_min_valid)
        return Ends(popped, root)

    @decides("D-kllm-61")
    def _array(self, n: int, apart: bool) -> OrizuruArray:
        """The units that a pass over n values uses: only the levels above the values."""
        pops = min(self.k, n)
        if apart:
            return CandidateArray(n, pops, self.total_order, "compare")
        return OrizuruArray(n, pops, self.total_order, self.min_leaf)

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject NaN unless the order is total."""
        (x,) = inputs
        orizuru.require_ordered(x, self.total_order)


def search(
    x: ArrayLike,
    k: int,
    inputs: int = 4096,
    total_order: bool = False,
    min_leaf: MinLeaf = "not_max",
    jit: bool = False,
) -> Result:
    """Pop the k largest and the k smallest elements of every row in passes of `inputs` values. [kllm §IV-C]

    x: float16 (..., n). k: 0 to n; at most `inputs` - 2 if n exceeds `inputs`, which is even. total_order and min_leaf
    are those of `Orizuru`. jit: use the compiled form. Raises as `orizuru.pops` does, and Refused for `inputs` out of
    range.
    """
    words, k = orizuru.require_input(x, k, min_leaf)
    orizuru.require_ordered(words, total_order)
    evaluate = UNIT.run_compiled if jit else UNIT.run
    options = {"n": words.shape[-1], "k": k, "inputs": inputs, "total_order": total_order, "min_leaf": min_leaf}
    return orizuru.shaped(evaluate(words, **options), words.shape, k)


UNIT: Unit[DeclaredState, Result] = Unit(
    unit_class=OrizuruPasses,
    paper="kllm §IV-C, Table I",
    meaning="the k largest and the k smallest of more values than the tree has inputs, in passes",
    configs={
        "n40": Config(n=40, k=3, inputs=16, total_order=False, min_leaf="not_max"),
        "n18_drained": Config(n=18, k=3, inputs=16, total_order=True, min_leaf="compare"),
        "n27_deep": Config(n=27, k=3, inputs=8, total_order=False, min_leaf="not_max"),
    },
    result=Result,
)
State: type[DeclaredState] = OrizuruPasses.State
run: RunFunction[Result] = UNIT.run
