"""A decoder under a LeanKV scheme in plain Python, one token at a time, made of the oracles; values are floats.

Tokens of a KV head are lists of codes, not bytes: the tests of pages check their places. Scheme
`fp16` is the decoder of its own test; LeanKV's changes are restated here.
"""

import math
from typing import Any, NamedTuple

from refemu.models.config import ModelConfig
from refemu.models.model import Model
from tests.models.schemes.fp16.test_decoder import Oracle, Small, cut, dot, softmax
from tests.oracles import fp16, sums
from tests.oracles.leankv import attention as leankv_attention
from tests.oracles.leankv import formats, units

FORMATS = {"paper": {"zero": "neg_min", "quant_div": "div"}, "diffkv": {"zero": "min", "quant_div": "recip_mul"}}
LAYOUT = {"k_vec": 1, "k_group": 4, "v_vec": 2, "v_group": 2}  #: for a head size of 16
CHANGES = ",".join(f"{name}={value}" for name, value in LAYOUT.items())


class Token(NamedTuple):
    """What a head stores."""

    key: list[formats.Affine]
    value: list[formats.Affine]
    score: float
    position: int


def small(blocks: int = 2) -> Model:
    """Four query heads on two KV heads of size 16."""
    config = ModelConfig(blocks=blocks, width=8, ffn=6, heads=4, kv_heads=2, head_dim=16, vocab=11, context=40)
    return Model("small", config, Small(config), "")


class Plain(Oracle):
    """The decoder; `config` is a LeanKvConfig, per_page: tokens of a high and of a low page."""

    def __init__(self, model: Model, config: Any, per_page: tuple[int, int]) -> None:
        super().__init__(model)
        self.lean, self.per_page, self.preset = config, per_page, config.preset
        self.options = leankv_attention.Options(
            config.order,
            config.fma,
            self.preset == "diffkv",
            leankv_attention.EPSILON if self.preset == "diffkv" else 0.0,
            k_group=config.k_group,
            v_vec=config.v_vec,
            v_group=config.v_group,
        )
        heads = [(layer, h) for layer in range(model.config.blocks) for h in range(model.config.kv_heads)]
        self.p: dict[tuple[int, int], list[Any]] = {head: [] for head in heads}
        self.high: dict[tuple[int, int], list[Token]] = {}
        self.low: dict[tuple[int, int], list[Token]] = {}
        self.n = self.prompt_length = 0
        self.choices: list[int] = []

    def prompt(self, ids: list[int]) -> list[list[float]]:
        """Logits of a prompt, whose tokens are compressed then."""
        rows = []
        for token in ids:
            rows.append(self.logits(token))
            self.n += 1
        self.prompt_length = self.n
        for head in self.p:
            self.compress(head)
        return rows

    def step(self, token: int) -> list[float]:
        """Logits after one more token."""
        row = self.logits(token)
        self.n += 1
        return row

    def compress(self, head: tuple[int, int]) -> None:
        layer, h = head
        padded = [[p + [0.0] * (self.n - len(p)) for p in heads] for heads in self.p[head]]
        found, lean = units.significance(padded, self.preset, self.lean.gqa), self.lean
        if lean.of("policy") == "static":
            classes = units.static_prompt(found.means, lean.window, lean.keep_percent)
        elif self.preset == "diffkv":
            classes = units.per_token(found.shares, lean.window, lean.alpha_prune, lean.alpha_quant)
        else:
            high = lean.t_low if lean.low is None else lean.t_high
            classes = units.cumulative(found.shares, lean.window, lean.t_low, high)
        for section, config, positions in ((self.high, lean.high, classes.high), (self.low, lean.low, classes.low)):
            section[head] = [
                self.encoded(config, self.keys[layer][t][h], self.values[layer][t][h], found.sums[t], t)
                for t in positions
            ]

    def encoded(self, name: str, key: list[float], value: list[float], score: float, position: int) -> Token:
        pair = formats.CONFIGS[name]
        parts = [
            formats.encode(x, bits, groups, **FORMATS[self.preset])
            for x, bits, groups in ((key, pair.k_bits, pair.k_groups), (value, pair.v_bits, pair.v_groups))
        ]
        return Token(parts[0], parts[1], score, position)

    def decoded(self, token: Token) -> tuple[list[float], list[float]]:
        zero = FORMATS[self.preset]["zero"]
        return formats.decode(token.key, zero), formats.decode(token.value, zero)

    def attention(self, layer: int, x: list[float]) -> list[float]:
        x = self.norm(f"blk.{layer}.attn_norm", x)
        dim, group = self.config.head_dim, self.config.heads // self.config.kv_heads
        q, k, v = (cut(self.linear(layer, name, x), dim) for name in "qkv")
        q, k = ([self.rotate(head, self.n) for head in heads] for heads in (q, k))
        self.keys[layer].append(k)
        self.values[layer].append(v)
        attend = self.from_pages if self.prompt_length else self.from_prompt
        out: list[float] = []
        for h in range(self.config.kv_heads):
            out += attend((layer, h), q[h * group : (h + 1) * group], k[h], v[h])
        return self.linear(layer, "o", out)

    def from_prompt(self, head: tuple[int, int], q: list[Any], key: Any, value: Any) -> list[float]:
        layer, h = head
        keys, values = ([token[h] for token in held[layer]] for held in (self.keys, self.values))
        scale = fp16.f32(1 / math.sqrt(self.config.head_dim))
        chances = [softmax([fp16.f32(dot(query, key) * scale) for key in keys]) for query in q]
        self.p[head].append(chances)
        return [sums.f16(dot(p, [value[i] for value in values])) for p in chances for i in range(self.config.head_dim)]

    def from_pages(self, head: tuple[int, int], q: list[Any], key: Any, value: Any) -> list[float]:
        self.decide(head, self.encoded(self.lean.high, key, value, 0.0, self.n))
        sections = [self.high[head], self.low[head]]
        pages = [
            [[self.decoded(token) for token in section[i : i + size]] for i in range(0, len(section), size)]
            for section, size in zip(sections, self.per_page, strict=True)
        ]
        found = [leankv_attention.paged_attention(query, pages[0], pages[1], self.options) for query in q]
        stored = [*sections[0], *sections[1]]
        scores = units.step_scores(
            [token.score for token in stored],
            [p for _, p in found],
            [token.position for token in stored],
            self.n,
            self.preset,
            self.lean.gqa,
        )
        scored = [token._replace(score=score) for token, score in zip(stored, scores, strict=True)]
        self.high[head], self.low[head] = scored[: len(sections[0])], scored[len(sections[0]) :]
        return [fp16.to_float(word) for words, _ in found for word in words]

    def decide(self, head: tuple[int, int], new: Token) -> None:
        lean, sections = self.lean, (self.high[head], self.low[head])
        high, low = ([(token.position, self.mean(token)) for token in section] for section in sections)
        if lean.of("policy") == "static":
            decision = units.static_step(high, self.n, lean.window, lean.keep_percent)
        elif lean.of("policy") == "diffkv":
            decision = units.diffkv(high, low, self.n, lean.window, lean.alpha_prune, lean.alpha_quant)
        else:
            t_high = lean.t_low if lean.low is None else lean.t_high
            decision = units.algorithm1(high, low, self.n, lean.window, lean.t_low, t_high, lean.score_rule)
        self.choices.append(decision.case)
        self.high[head], self.low[head] = units.apply(*sections, decision, new)
        if decision.low_slot >= 0:
            moved = self.low[head][decision.low_slot]
            pair = formats.CONFIGS[lean.low]
            self.low[head][decision.low_slot] = moved._replace(
                key=formats.requantize(moved.key, pair.k_bits, pair.k_groups, **FORMATS[self.preset]),
                value=formats.requantize(moved.value, pair.v_bits, pair.v_groups, **FORMATS[self.preset]),
            )

    def mean(self, token: Token) -> float:
        (count,) = units.counts_at([token.position], self.n, self.prompt_length, self.preset)
        return fp16.f32(token.score / count) if count else 0.0
