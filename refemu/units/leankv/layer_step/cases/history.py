"""Stimuli of layer_step, event by event: vectors, scores and positions of heads that retain the same tokens.

Paper: [leankv §4, §5.3].
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arith import prng
from refemu.units.stimuli import patterns16, patterns32

LOAD, ADMIT, STEP, FINISH = range(4)
NONE, HIGH, LOW = range(3)  # values of the port `section`
Thresholds = tuple[float, float]
EVERYTHING, NOTHING = (1.0, 1.0), (0.0, 0.0)  #: thresholds: the oldest token of the window leaves; all stay high
KEEP_LOW = (0.0, 1.0)  #: the oldest token becomes low
ALPHA = float(1 << 20)  #: alpha_quant under which any token moves
#: values that are exact in 4 bits: for 10 equal tokens, LARGE / 10 + SMALL / 10 rounds to LARGE / 10, and
#: LARGE / 10 + 2 * SMALL / 10 does not
LARGE, SMALL = 15.0 * (1 << 11), 15.0 / (1 << 14)
COARSE = 0x3C0  #: bits of the mantissas of queries
EVENTS, MOVED = 6, 4  #: events of which two have new vectors, and features by which the others' are moved
LONG = 8  #: tokens of a prompt at a limit: 1 / LONG is exact, so limits of diffkv are too


@dataclass(frozen=True)
class Prompt:
    """Tokens of a prompt, and the positions that a head retains, in the order of the slots."""

    tokens: int
    high: tuple[int, ...]
    low: tuple[int, ...] = ()


class History:
    """Events of one device; heads retain the same positions, with different vectors and scores."""

    def __init__(
        self,
        config: Mapping[str, Any],
        seed: int,
        window: int,
        tied: bool = False,
        rough: tuple[int, int] | None = None,
        fresh: bool = False,
    ) -> None:
        """rough: exponents of keys and values of any mantissa; else both are small multiples of a power of two.

        fresh: no two tokens have the same vectors.
        """
        self.requests: int = int(config.get("requests", 1))
        self.kv_heads: int = int(config["kv_heads"]) * self.requests  #: of all requests
        self.size: int = int(config["head_size"])
        self.queries: int = int(config["heads"])
        self.window: int = window
        self.tied: bool = tied
        self.rough: tuple[int, int] | None = rough
        self.fresh: bool = fresh
        self.equal = config["low"] is None and config.get("policy") == "diffkv"
        self.alphas: bool = config.get("policy") == "diffkv"
        self.alpha: int = LONG if self.alphas else 1  #: factor of a threshold to its limit: LONG tokens divide it
        self.stream: int = prng.stream("head_step/vectors", seed)
        self.drawn: int = 0
        self.last: list[dict[str, np.ndarray]] = []  #: keys and values of tokens
        self.rows: list[dict[str, Any]] = []

    def words(self, count: int) -> np.ndarray:
        """The next uniform numbers below 2**16."""
        self.drawn += count
        return (prng.words_of([self.stream], self.drawn - count, count)[0] >> np.uint64(48)).astype(np.int64)

    def vectors(self, count: int, scale: float) -> np.ndarray:
        """fp16 words of `count` vectors, features in multiples of scale / 8, or / 64 if fresh, up to 2 * scale."""
        half = 128 if self.fresh else 16
        values = (self.words(count * self.size) % (2 * half + 1) - half) / (half // 2) * scale
        return patterns16(values)

    def mantissas(self, count: int, exponent: int, mask: int = 0x3FF) -> np.ndarray:
        """fp16 words of `count` vectors, every sign and mantissa, magnitudes from 2**(exponent - 3) up.

        Those of every third event stay below 1.25 times a power of two, so that scales have other mantissas too.
        mask: bits of a mantissa that are drawn; others are 0.
        """
        words, mask = self.words(count * self.size), mask if len(self.rows) % 3 else 0xFF
        return np.asarray((words & (0x8000 | mask)) | ((exponent + 15 - (words >> 10) % 4) << 10))

    def tokens(self) -> dict[str, np.ndarray]:
        """Keys and values of a token of every head: new ones, or (a small file) those of two tokens before, moved."""
        if not self.fresh and len(self.rows) % EVENTS >= 2 and self.last[1:]:
            vectors = {name: np.roll(array, MOVED) for name, array in self.last[-2].items()}
        elif self.rough is None:
            vectors = {"key": self.vectors(self.kv_heads, 1.0), "value": self.vectors(self.kv_heads, 0.5)}
        else:
            key, value = self.rough
            vectors = {"key": self.mantissas(self.kv_heads, key), "value": self.mantissas(self.kv_heads, value)}
        self.last.append(vectors)
        return dict(vectors)

    def event(self, op: int, **ports: Any) -> None:
        """Append an event; ports that are not named are 0."""
        lanes = {
            name: np.zeros(self.kv_heads, np.int64)
            for name in ("keep_high", "keep_low", "section", "score", "position")
        }
        empty = {"key": self.kv_heads, "value": self.kv_heads, "q": self.kv_heads * self.queries}
        row: dict[str, Any] = {"op": op, "prompt": 0, **lanes, **ports}
        if self.requests > 1:
            row |= {"prompt": np.zeros(self.requests, np.int64) + row["prompt"]}
            ports = {"members": np.ones(self.requests, np.int64)} | ports | {"prompt": row["prompt"]}
        row |= {name: np.zeros(count * self.size, np.int64) for name, count in empty.items()}
        self.rows.append({**row, "window": self.window, "thresholds": np.zeros(2, np.int64), **ports})

    def prompt(self, prompt: Prompt) -> None:
        """Admit a prompt and load its retained tokens."""
        self.event(
            ADMIT, prompt=prompt.tokens, keep_high=self.each(len(prompt.high)), keep_low=self.each(len(prompt.low))
        )
        for section, positions in ((HIGH, prompt.high), (LOW, prompt.low)):
            for position in positions:
                count = prompt.tokens - 1 - position
                each = self.words(self.kv_heads) % 32767 + 1
                if self.tied:
                    each = self.each(16384 if position == prompt.high[0] else 8192)
                score = patterns32(count * each / 32768)
                if self.rough:  # every mantissa, from 2**-3 up
                    low, high = self.words(self.kv_heads), self.words(self.kv_heads)
                    score = low | (high & 0x7F) << 16 | (124 + (high >> 7) % 16) << 23
                vectors = self.tokens()
                where = {"section": self.each(section), "position": self.each(position)}
                self.event(LOAD, score=score, **where, **vectors)

    def each(self, value: int) -> np.ndarray:
        """The same value for every head."""
        return np.full(self.kv_heads, value, np.int64)

    def step(self, thresholds: Thresholds) -> None:
        """A generation step."""
        pair = (thresholds[1],) * 2 if self.equal else thresholds
        if self.rough and self.alphas and pair == KEEP_LOW:  # scores are far above 1 / n
            pair = (0.0, ALPHA)
        vectors, count = self.tokens(), self.kv_heads * self.queries
        bits = 0x3FF if self.fresh else COARSE
        vectors["q"] = self.vectors(count, 0.5) if self.rough is None else self.mantissas(count, -self.rough[0], bits)
        words = patterns32(pair)
        self.event(STEP, thresholds=words, **vectors)

    def run(self, prompt: Prompt, thresholds: Iterable[Thresholds]) -> None:
        """A prompt, then a step for every pair of thresholds."""
        self.prompt(prompt)
        for pair in thresholds:
            self.step(pair)

    def inputs(self) -> dict[str, np.ndarray]:
        """Words at every port, (1, events) and lanes."""
        return {name: np.array([row[name] for row in self.rows], np.int64)[None] for name in self.rows[0]}
