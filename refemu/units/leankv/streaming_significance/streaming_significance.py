"""Significance of tokens from logits, tile by tile, as a kernel that never stores the matrix of probabilities.

Paper: [leankv §7.4], which names a kernel compatible with FlashAttention, without its arithmetic; [leankv §4].
"""

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from refemu.arith.checks import reject
from refemu.arith.fp32 import exp32
from refemu.arith.scalar32 import value32
from refemu.units import AnyUnit, Changes, Config, DeclaredState, Port, Ports, RunFunction, Unit, constant, decides
from refemu.units.leankv.significance import Significance
from refemu.units.stepping import Result

__all__ = ["UNIT", "Rescale", "State", "StreamingSignificance", "run"]

Rescale = Literal["online", "two_pass"]  #: Treatment of a sum of exponentials when the maximum grows (D-leankv-73)
SMALLEST = np.float32(-np.inf)  #: maximum of no logits


class StreamingSignificance(Significance):
    """Streaming significance: an operation is `tile` for every tile of keys, then the events of `Significance`.

    A `tile` updates the maximum and the sum of exponentials of every query and head. A `query` computes the
    probabilities of one query again from its logits, and adds them to the sums of the tokens. [leankv §7.4, §4]
    """

    name = "streaming_significance"
    events: ClassVar[tuple[str, ...]] = ("tile", "query", "mean", "share")
    counters: ClassVar[dict[str, str]] = {
        **Significance.counters,
        "exps": "exponentials, those of corrections included",
        "products": "multiplications of sums by corrections",
    }
    keys: Annotated[int, 1, 1 << 24] = 4  #: keys of a tile, 1 to 2**24
    rescale: Rescale = "online"  #: the maximum so far, with corrections; or all maxima first, in a pass of their own

    @constant
    def tiles(self) -> int:
        """Tiles of a pass."""
        return -(-self.tokens // self.keys)

    @constant
    def passes(self) -> int:
        """Tiles of all passes before the probabilities."""
        return self.tiles * (2 if self.rescale == "two_pass" else 1)

    @constant
    def ports(self) -> Ports:
        whole, rows = super().ports, self.tokens * self.heads
        lanes, says = rows * self.tokens, "logits by query, head and token; later tokens are not read"
        state = (
            Port("top", 32, rows, encoding="f32", meaning="largest logit so far, by query and head"),
            Port("norm", 32, rows, encoding="f32", meaning="sum of exponentials so far, by query and head"),
            Port("tiles_done", self.passes.bit_length(), most=self.passes, meaning="tiles so far, of all passes"),
        )
        inputs = (Port("logits", 32, lanes, encoding="f32", meaning=says),)
        return Ports(inputs=inputs, outputs=whole.outputs, state=(*whole.state, *state))

    @constant
    def _cleared(self) -> dict[str, Any]:
        rows = self.tokens * self.heads
        top = (int(SMALLEST.view(np.uint32)),) * rows
        return {**super()._cleared, "top": top, "norm": (0,) * rows, "tiles_done": 0}

    @cached_property
    def state(self) -> DeclaredState:  # type: ignore[override]  # as in `Significance`
        """Ports and registers."""
        return self.reset(self.State, logits=self.ports.inputs[0].filled(0), **self._cleared)

    @decides("D-leankv-9")
    def _require(self, *inputs: np.ndarray) -> None:
        """Reject logits that are not finite."""
        bad = np.asarray(inputs[0]).astype(np.int64) & 0x7F80_0000 == 0x7F80_0000
        reject(bad, f"{self.name}: logits must be finite", inputs[0], ", got {:#010x}")

    @property
    def busy(self) -> bool:
        """Whether tiles, rows or tokens remain."""
        return self.state.event == "tile" or super().busy

    def _open(self, *inputs: Any) -> DeclaredState:
        self._commit("tile", (inputs[0],), self._cleared)
        return self._continue()

    def follows(self) -> str:
        return "tile" if self.state.tiles_done < self.passes else super().follows()

    @decides("D-leankv-73")
    def tile(self) -> Changes:
        """Update maxima and sums of exponentials of all queries with the logits of a tile of keys."""
        before, counted = self.state, dict.fromkeys(self.counters, 0)
        top = np.array(before.top, np.uint32).view(np.float32)
        norm = np.array(before.norm, np.uint32).view(np.float32)
        first, summing = before.tiles_done % self.tiles * self.keys, before.tiles_done >= self.passes - self.tiles
        for row in range(first, self.tokens):  # a query sees the tokens up to its own
            for lane in range(row * self.heads, (row + 1) * self.heads):
                seen = self._seen(lane, first, min(first + self.keys, row + 1))
                largest = max(float(top[lane]), *seen)
                if summing:
                    norm[lane] = self._summed(float(top[lane]), largest, float(norm[lane]), seen, counted)
                top[lane] = largest
        patterns = (tuple(lanes.view(np.uint32).tolist()) for lanes in (top, norm))
        return {**counted, **dict(zip(("top", "norm"), patterns, strict=True)), "tiles_done": before.tiles_done + 1}

    def _seen(self, lane: int, first: int, end: int) -> list[float]:
        """Logits of a query and head for the keys of a tile."""
        lanes = self.state.logits[lane * self.tokens + first : lane * self.tokens + end]
        return [value32(pattern) for pattern in lanes]

    @decides("D-leankv-73")
    def _summed(self, top: float, largest: float, norm: float, seen: list[float], counted: dict[str, int]) -> float:
        """The sum of exponentials with those of a tile; online, the old sum is corrected first."""
        if self.rescale == "online":
            correction = self._exp(top, largest, counted)
            counted["products"] += 1
            norm = float(np.float32(np.float32(norm) * np.float32(correction)))
        for value in seen:
            norm = self._added(norm, self._exp(value, largest, counted))
            counted["adds"] += 1
        return norm

    def _exp(self, value: float, top: float, counted: dict[str, int]) -> float:
        """exp(value - top), of a difference rounded to float32."""
        counted["exps"] += 1
        with np.errstate(over="ignore"):
            return float(exp32(np.float32(value) - np.float32(top)))

    def query(self) -> Changes:
        """Compute the probabilities of one query, and add them to the sums of the tokens before it."""
        before, counted = self.state, dict.fromkeys(self.counters, 0)
        row, n, p = before.row, self.tokens, [0] * self.tokens * self.heads * self.tokens
        if row >= n - (self.score_queries or n):
            for h in range(self.heads):
                lane = row * self.heads + h
                top, norm = value32(before.top[lane]), value32(before.norm[lane])
                for t, value in enumerate(self._seen(lane, 0, row + 1 if self.include_self else row)):
                    quotient = self._divided(self._exp(value, top, counted), norm)
                    counted["divisions"] += 1
                    p[lane * n + t] = int(np.float32(quotient).view(np.uint32))
        changes = self._row(p)
        return {**changes, **{name: changes.get(name, 0) + count for name, count in counted.items()}}


UNIT: AnyUnit = Unit(
    unit_class=StreamingSignificance,
    paper="leankv §7.4, §4",
    meaning="attention paid to each token, from logits by tiles",
    configs={
        "paper": Config(tokens=8, heads=2, keys=4),
        "two_pass": Config(tokens=8, heads=2, keys=4, rescale="two_pass"),
        "diffkv": Config(tokens=8, heads=2, keys=2, score_queries=4, include_self=True, normalize=False),
    },
)
State: type[DeclaredState] = StreamingSignificance.State
run: RunFunction[Result] = UNIT.run
