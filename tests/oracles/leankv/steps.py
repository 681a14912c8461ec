"""Generation steps of the KV heads of a layer, on lists of tokens [leankv §4 Algorithm 1, §5.3, §6.1, §6.2].

A head is two lists of tokens; pages are a number of tokens at a time, and their ids come from the memory manager.

    Layer(rules, heads)                admit, load, step, finish: the life of one request
    record(token)                      16-bit words of a token
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tests.oracles.fp16 import f32
from tests.oracles.leankv import attention, formats, memory, units

REQUEST = 0


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
    """All KV heads of a layer and their one request."""

    def __init__(self, rules: Rules, heads: int) -> None:
        self.rules = rules
        low = rules.per_page[1] if rules.low else None
        self.manager = memory.Manager(
            rules.pages, 1, heads, rules.per_page[0], low, rules.max_len, rules.reserve, rules.extra, slots=1
        )
        self.heads = [(REQUEST, 0, head) for head in range(heads)]
        self.tokens: list[tuple[list[Token], list[Token]]] = [([], []) for _ in range(heads)]
        self.seen = self.prompt = 0

    def admit(self, prompt: int, kept: Sequence[tuple[int, int]]) -> None:
        """Pages for the tokens that every head keeps of a prompt."""
        self.manager.prompt_allocate({REQUEST: prompt})
        self.manager.prompt_release(dict(zip(self.heads, kept, strict=True)))
        self.tokens = [([], []) for _ in self.heads]
        self.seen = self.prompt = prompt

    def load(
        self, head: int, section: int, key: Sequence[float], value: Sequence[float], score: float, at: int
    ) -> Token:
        """A retained token, at the end of its section."""
        c = self.rules.low if section else self.rules.high
        assert c is not None
        token = Token(*coded(key, value, c, **self.rules.codes), score, at)
        self.tokens[head][section].append(token)
        return token

    def finish(self) -> None:
        """All pages go back."""
        self.manager.finish([REQUEST])
        self.seen = self.prompt = 0

    def step(
        self,
        keys: Sequence[Sequence[float]],
        values: Sequence[Sequence[float]],
        queries: Sequence[Sequence[Sequence[float]]],
        window: int,
        limits: tuple[float, float],
    ) -> list[Stepped]:
        """One token: of every head its key, value and queries."""
        decisions = [self.decide(head, window, limits) for head in range(len(self.heads))]
        before = [[list(run) for run in self.manager.pages[head]] for head in self.heads]
        grown = {head: (d.delta_high, d.delta_low) for head, d in zip(self.heads, decisions, strict=True)}
        self.manager.step_allocate(grown, self.rules.lazy)
        done = []
        for index, head in enumerate(self.heads):
            runs = zip(self.manager.pages[head], before[index], strict=True)
            pages = [(run[len(old) :] or [-1])[0] for run, old in runs]
            done.append(self.one(index, decisions[index], pages, keys[index], values[index], queries[index]))
        self.seen += 1
        return done

    def decide(self, head: int, window: int, limits: tuple[float, float]) -> units.Decision:
        """From the scores before the step."""
        n, sections = self.seen, self.tokens[head]
        means = []
        for section in sections:
            counts = units.counts_at([t.position for t in section], n, self.prompt, self.rules.preset)
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
        rules, moved = self.rules, None
        high, low = self.tokens[head]
        if decision.low_slot >= 0:
            assert rules.low is not None
            moved = lowered(high[decision.victim], rules.low, **rules.codes)
            high[decision.victim] = moved
        new = Token(*coded(key, value, rules.high, **rules.codes), 0.0, self.seen)
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
        scores = units.step_scores([t.score for t in both], p, positions, self.seen, rules.preset)
        both = [t._replace(score=score) for t, score in zip(both, scores, strict=True)]
        self.tokens[head] = both[: len(high)], both[len(high) :]
        return Stepped(decision, pages, new, moved, [words for words, _ in found], p, scores)


def cut(tokens: Sequence[Token], size: int) -> list[Sequence[Token]]:
    """Pages of so many tokens."""
    return [tokens[first : first + size] for first in range(0, len(tokens), size)]
