"""One 16-input unit of Orizuru with its ports: values from below, registers of both trees, two values for above.

Paper: [kllm §IV-C, Fig. 7; Table I]. 273 of them take 4,096 values. A clock edge takes the values and settles all four
levels of both trees (D-kllm-70). `orizuru.array.Unit16` is the unit that the array is made of, level by level.
"""

from typing import ClassVar

import numpy as np

from refemu.arith.checks import reject
from refemu.units import AnyUnit, Changes, Config, Port, Ports, Sequential, Unit, constant, decides
from refemu.units.kllm.orizuru import MinLeaf
from refemu.units.unit import DeclaredState, Result, RunFunction

__all__ = ["UNIT", "Orizuru16", "State", "run"]

INPUTS = 16  #: of either tree [kllm Table I]
NODES = INPUTS - 1  #: registers of a tree


class Orizuru16(Sequential):
    """A 16-input unit of Orizuru: an event is a clock edge, in which both trees settle."""

    name = "orizuru16"
    events: ClassVar[tuple[str, ...]] = ("settle",)
    counters: ClassVar[dict[str, str]] = {
        "comparisons": "uses of a comparator; none where the lowest level of the min tree takes inverted bits",
        "comparisons_live": "uses of a comparator with an available value on both sides",
    }
    min_leaf: MinLeaf = "not_max"  #: source of the lowest bits of the min tree (D-kllm-21); "compare" above the leaves

    @constant
    def ports(self) -> Ports:
        """Values of either tree; in the lowest stage both trees have the same ones."""

        def side(name: str, tree: str) -> tuple[Port, Port]:
            words = Port(name, 16, INPUTS, encoding="f16", meaning=f"values of the {tree} tree")
            return words, Port(f"{name}_valid", 1, INPUTS, meaning=f"1: the value is available in the {tree} tree")

        def root(name: str, tree: str) -> tuple[Port, Port, Port]:
            return (
                Port(f"{name}_index", 4, meaning=f"input at the root of the {tree} tree"),
                Port(f"root_{name}", 16, encoding="f16", meaning=f"value at the root of the {tree} tree"),
                Port(f"root_{name}_valid", 1, meaning="the value is available"),
            )

        bits = "bit h - 1 is node h of the {} tree, node 1 the root: 1 if its right child is the {} one"
        return Ports(
            inputs=(*side("top", "max"), *side("low", "min")),
            outputs=(*root("max", "max"), *root("min", "min")),
            state=(
                Port("p", 1, NODES, meaning=bits.format("max", "larger")),
                Port("q", 1, NODES, meaning=bits.format("min", "smaller")),
            ),
        )

    def settle(
        self, top: tuple[int, ...], top_valid: tuple[int, ...], low: tuple[int, ...], low_valid: tuple[int, ...]
    ) -> Changes:
        """Set the registers of both trees from the leaves to the root, and show what is there."""
        p3 = tuple(self._larger(top, top_valid, 2 * i, 2 * i + 1) for i in range(8))
        at3 = tuple(2 * i + p3[i] for i in range(8))  # inputs that the nodes of a level pass on
        p2 = tuple(self._larger(top, top_valid, at3[2 * i], at3[2 * i + 1]) for i in range(4))
        at2 = tuple(at3[2 * i + p2[i]] for i in range(4))
        p1 = tuple(self._larger(top, top_valid, at2[2 * i], at2[2 * i + 1]) for i in range(2))
        at1 = tuple(at2[2 * i + p1[i]] for i in range(2))
        p0 = self._larger(top, top_valid, at1[0], at1[1])
        up = at1[p0]
        q3 = tuple(self._lowest(low, low_valid, i, p3[i]) for i in range(8))
        in3 = tuple(2 * i + q3[i] for i in range(8))
        q2 = tuple(self._smaller(low, low_valid, in3[2 * i], in3[2 * i + 1]) for i in range(4))
        in2 = tuple(in3[2 * i + q2[i]] for i in range(4))
        q1 = tuple(self._smaller(low, low_valid, in2[2 * i], in2[2 * i + 1]) for i in range(2))
        in1 = tuple(in2[2 * i + q1[i]] for i in range(2))
        q0 = self._smaller(low, low_valid, in1[0], in1[1])
        down = in1[q0]
        live = top_valid[at1[0]] & top_valid[at1[1]]
        for i in range(8):
            live += top_valid[2 * i] & top_valid[2 * i + 1]
        for i in range(4):
            live += top_valid[at3[2 * i]] & top_valid[at3[2 * i + 1]]
            live += low_valid[in3[2 * i]] & low_valid[in3[2 * i + 1]]
        for i in range(2):
            live += top_valid[at2[2 * i]] & top_valid[at2[2 * i + 1]]
            live += low_valid[in2[2 * i]] & low_valid[in2[2 * i + 1]]
        live += low_valid[in1[0]] & low_valid[in1[1]]
        if not self._reuses:
            for i in range(8):
                live += low_valid[2 * i] & low_valid[2 * i + 1]
        return {
            "p": tuple(self._register(h, p0, p1, p2, p3) for h in range(1, INPUTS)),
            "q": tuple(self._register(h, q0, q1, q2, q3) for h in range(1, INPUTS)),
            "max_index": up,
            "root_max": top[up],
            "root_max_valid": top_valid[up],
            "min_index": down,
            "root_min": low[down],
            "root_min_valid": low_valid[down],
            "comparisons": 2 * NODES - (INPUTS // 2 if self._reuses else 0),
            "comparisons_live": live,
        }

    @constant
    def _reuses(self) -> bool:
        """Whether the lowest level of the min tree has the inverted bits of the max tree."""
        return self.min_leaf == "not_max"

    def _register(self, h: int, root: int, two: tuple[int, ...], four: tuple[int, ...], eight: tuple[int, ...]) -> int:
        """Register of node h, by levels; its place in a level is h without its highest bit."""
        if h < 4:
            return two[h & 1] if h > 1 else root
        return four[h & 3] if h < 8 else eight[h & 7]

    def _larger(self, words: tuple[int, ...], valid: tuple[int, ...], left: int, right: int) -> int:
        """Register of a node of the max tree above two inputs."""
        return self._right(valid[left], valid[right], int(self.key(words[right]) > self.key(words[left])))

    def _smaller(self, words: tuple[int, ...], valid: tuple[int, ...], left: int, right: int) -> int:
        """Register of a node of the min tree above two inputs."""
        return self._right(valid[left], valid[right], int(self.key(words[right]) < self.key(words[left])))

    @decides("D-kllm-21")
    def _lowest(self, words: tuple[int, ...], valid: tuple[int, ...], pair: int, bit: int) -> int:
        """Register of the min tree above two inputs; among leaves the inverted one of the max tree, bit."""
        if self._reuses:
            return self._right(valid[2 * pair], valid[2 * pair + 1], 1 - bit)
        return self._smaller(words, valid, 2 * pair, 2 * pair + 1)

    @decides("D-kllm-22")
    def _right(self, left: int, right: int, wins: int) -> int:
        """Register of a node. left, right: whether they are available; wins: the right one, if both are."""
        return wins if left & right else right

    @decides("D-kllm-27")
    def key(self, word: int) -> int:
        """Integer in the order of the values; zeros of both signs are equal."""
        magnitude = word & 0x7FFF
        return -magnitude if word & 0x8000 else magnitude

    @decides("D-kllm-27")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject NaN."""
        for port, words in zip(self.ports.inputs[::2], inputs[::2], strict=True):
            reject(words & 0x7FFF > 0x7C00, f"{self.name}: {port.name} must not be NaN", "NaN")


UNIT: AnyUnit = Unit(
    unit_class=Orizuru16,
    paper="kllm §IV-C, Table I",
    meaning="a 16-input unit of Orizuru: both trees settle in a clock edge",
    configs={"leaves": Config(min_leaf="not_max"), "above": Config(min_leaf="compare")},
)
State: type[DeclaredState] = Orizuru16.State
run: RunFunction[Result] = UNIT.run
