"""Generation steps of the KV heads of a layer, for some requests, on lists of tokens.

Paper: [leankv §4 Algorithm 1, §5.3, §6.1, §6.2].

A head is two lists of tokens; pages are a number of tokens at a time, and their ids come from the memory manager.

    Layer(rules, heads, requests)      admit, load, step, finish: the lives of requests; heads by number, all requests
    record(token)                      16-bit words of a token
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tests.oracles.fp16 import f32
from tests.oracles.leankv import attention, formats, memory, units


class Token(NamedTuple):
    """A stored token: codes of key and value, score, position."""

    key: list[formats.Affine]
    value: list[formats.Affine]
    score: float
    position: int


class Rules(NamedTuple):
    """Precisions and tokens of a page, policy of the steps, arithmetic of attention."""

    high: formats.Config
    low: formats.Config | None
    per_page: tuple[int, int]
    max_len: int
    pages: int
    policy: str = "algorithm1"
    preset: str = "paper"
    sums: attention.Options = attention.PAPER
    reserve: int = 0
    extra: int = 1
    lazy: bool = True

    @property
    def codes(self) -> dict[str, str]:
        """Options of the codes."""
        return {"zero": "min", "quant_div": "recip_mul"} if self.preset == "diffkv" else {}


class Stepped(NamedTuple):
    """What one head does in a step."""

    decision: units.Decision
    pages: list[int]  #: taken for the high and for the low section, -1 for none
    written: Token
    moved: Token | None
    out: list[list[int]]  #: fp16 words by query head
    p: list[list[float]]  #: by query head, high tokens, then low ones
    scores: list[float]


def coded(
    key: Sequence[float], value: Sequence[float], c: formats.Config, **codes: str
) -> tuple[list[formats.Affine], list[formats.Affine]]:
    """Key and value in codes."""
    return formats.encode(key, c.k_bits, c.k_groups, **codes), formats.encode(value, c.v_bits, c.v_groups, **codes)


def lowered(token: Token, c: formats.Config, **codes: str) -> Token:
    """A token at the low precision: from its codes; score and position stay."""
    vectors = zip((token.key, token.value), (c.k_bits, c.v_bits), (c.k_groups, c.v_groups), strict=True)
    key, value = (formats.requantize(x, bits, groups, **codes) for x, bits, groups in vectors)
    return Token(key, value, token.score, token.position)


def record(token: Token) -> list[int]:
    """Words: codes and metadata of the key, of the value, score and position."""
    words: list[int] = []
    for vector in (token.key, token.value):
        words += formats.words([code for group in vector for code in group.code], vector[0].bits)
        words += [word for group in vector for word in (group.scale, group.zero)]
    return [*words, *struct.unpack("<4H", struct.pack("<fi", token.score, token.position))]


class Layer:
    """All KV heads of a layer and their requests."""

    def __init__(self, rules: Rules, heads: int, requests: int = 1) -> None:
        self.rules = rules
        low = rules.per_page[1] if rules.low else None
        self.manager = memory.Manager(
            rules.pages, 1, heads, rules.per_page[0], low, rules.max_len, rules.reserve, rules.extra, slots=requests
        )
        self.heads = [(request, 0, head) for request in range(requests) for head in range(heads)]
        self.tokens: list[tuple[list[Token], list[Token]]] = [([], []) for _ in self.heads]
        self.seen, self.prompt = [0] * requests, [0] * requests

    def admit(self, prompts: dict[int, int], kept: Sequence[tuple[int, int]]) -> None:
        """Pages for the tokens that every head keeps of prompts; `kept` has all heads."""
        self.manager.prompt_allocate(prompts)
        self.manager.prompt_release(
            {head: pair for head, pair in zip(self.heads, kept, strict=True) if head[0] in prompts}
        )
        for number, head in enumerate(self.heads):
            if head[0] in prompts:
                self.tokens[number] = [], []
        for request, prompt in prompts.items():
            self.seen[request] = self.prompt[request] = prompt

    def load(
        self, head: int, section: int, key: Sequence[float], value: Sequence[float], score: float, at: int
    ) -> Token:
        """A retained token, at the end of its section."""
        c = self.rules.low if section else self.rules.high
        assert c is not None
        token = Token(*coded(key, value, c, **self.rules.codes), score, at)
        self.tokens[head][section].append(token)
        return token

    def finish(self, requests: Sequence[int]) -> None:
        """All pages of requests go back."""
        self.manager.finish(requests)
        for request in requests:
            self.seen[request] = self.prompt[request] = 0

    def step(
        self,
        requests: Sequence[int],
        keys: Sequence[Sequence[float]],
        values: Sequence[Sequence[float]],
        queries: Sequence[Sequence[Sequence[float]]],
        window: int,
        limits: tuple[float, float],
    ) -> dict[int, Stepped]:
        """One token of some requests: of every head its key, value and queries; results by number of the head."""
        numbers = [number for number, head in enumerate(self.heads) if head[0] in requests]
        decisions = {number: self.decide(number, window, limits) for number in numbers}
        before = {number: [list(run) for run in self.manager.pages[self.heads[number]]] for number in numbers}
        grown = {self.heads[number]: (d.delta_high, d.delta_low) for number, d in decisions.items()}
        self.manager.step_allocate(grown, self.rules.lazy)
        done = {}
        for number in numbers:
            runs = zip(self.manager.pages[self.heads[number]], before[number], strict=True)
            pages = [(run[len(old) :] or [-1])[0] for run, old in runs]
            done[number] = self.one(number, decisions[number], pages, keys[number], values[number], queries[number])
        for request in requests:
            self.seen[request] += 1
        return done

    def decide(self, head: int, window: int, limits: tuple[float, float]) -> units.Decision:
        """From the scores before the step."""
        n, prompt, sections = self.seen[self.heads[head][0]], self.prompt[self.heads[head][0]], self.tokens[head]
        means = []
        for section in sections:
            counts = units.counts_at([t.position for t in section], n, prompt, self.rules.preset)
            means.append([(t.position, f32(t.score / c) if c else 0.0) for t, c in zip(section, counts, strict=True)])
        t_low, t_high = limits if self.rules.low else (limits[0], limits[0])
        decide = units.diffkv if self.rules.policy == "diffkv" else units.algorithm1
        return decide(means[0], means[1], n, window, t_low, t_high)

    def one(
        self,
        head: int,
        decision: units.Decision,
        pages: list[int],
        key: Sequence[float],
        value: Sequence[float],
        queries: Sequence[Sequence[float]],
    ) -> Stepped:
        """Move, write, attend, add scores."""
        rules, moved, seen = self.rules, None, self.seen[self.heads[head][0]]
        high, low = self.tokens[head]
        if decision.low_slot >= 0:
            assert rules.low is not None
            moved = lowered(high[decision.victim], rules.low, **rules.codes)
            high[decision.victim] = moved
        new = Token(*coded(key, value, rules.high, **rules.codes), 0.0, seen)
        high, low = units.apply(high, low, decision, new)
        zero = rules.codes.get("zero", "neg_min")
        plain = [
            [
                [(formats.decode(t.key, zero), formats.decode(t.value, zero)) for t in page]
                for page in cut(section, size)
            ]
            for section, size in zip((high, low), rules.per_page, strict=True)
        ]
        found = [attention.paged_attention(q, plain[0], plain[1], rules.sums) for q in queries]
        both, p = [*high, *low], [probabilities for _, probabilities in found]
        positions = [t.position for t in both]
        scores = units.step_scores([t.score for t in both], p, positions, seen, rules.preset)
        both = [t._replace(score=score) for t, score in zip(both, scores, strict=True)]
        self.tokens[head] = both[: len(high)], both[len(high) :]
        return Stepped(decision, pages, new, moved, [words for words, _ in found], p, scores)


def cut(tokens: Sequence[Token], size: int) -> list[Sequence[Token]]:
    """Pages of so many tokens."""
    return [tokens[first : first + size] for first in range(0, len(tokens), size)]
