"""Every product of a block through harmonia_core: words, codes and offsets are those of the scheme [harmonia §IV-A].

The scheme's steps are repeated by hand, product by product, from the embedding on: a prompt beyond the window of the
offsets, so that some keys are demoted to 4 bits, then decode steps.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith import fp16
from refemu.formats.harmonia.bfp import BfpTensor
from refemu.models.schemes.harmonia import attention
from refemu.models.schemes.harmonia.cache import Held
from refemu.models.schemes.harmonia.steps import Scoring
from refemu.models.taps import Watch
from refemu.units.harmonia import harmonia_core

SCHEMES = ["harmonia-kv8", "harmonia-kv4"]
KINDS = {"q": "q", "k": "k", "v": "v", "o": "final", "gate": "linear", "up": "linear", "down": "final"}
PROMPT, STEPS = 104, 2


class Core:
    """The core as a model has it: `run` with the model's rotation, heads and positions."""

    def __init__(self, parts: Any, layer: int, run: Any) -> None:
        self.parts, self.layer, self.run = parts, layer, run
        config = parts.model
        turned = "interleaved" if config.rope_interleaved else "half"
        self.model = {
            "head_dim": config.head_dim,
            "base": int(config.rope_base),
            "rotation": turned if config.positions == "rotary" else "none",
        }
        assert config.positions != "rotary" or self.model["base"] == config.rope_base

    def linear(self, name: str, x: np.ndarray, **options: Any) -> Any:
        """Layer `name` of fp16 values (tokens, inputs)."""
        names = next(names for layer, names in self.parts._linears if layer == self.layer and name in names)
        made = self.parts._linears[self.layer, names]
        some = made.columns[names.index(name)]
        code, scale = made.weight.code[some], made.weight.scales_of(32)[some]
        a = self.parts.units.encode(self.parts.activations, self.parts.units.words(x))
        zeros = np.zeros(code.shape, np.int64)
        kind = KINDS[name]
        heads = self.model if kind in ("q", "k") else {}
        return self.product(kind, a, "int4", code & 15, zeros, zeros[:, ::32], fp16.bits(scale), **heads, **options)

    def heads(self, kind: str, a: BfpTensor, row: slice, b: tuple[np.ndarray, ...], **options: Any) -> Any:
        """Queries times keys, or scores times values, of one head; b: sign, mantissa, exponent by columns."""
        some = BfpTensor(a.format, a.sign[row], a.mantissa[row], a.exponent[row], 1)
        sign, mantissa, exponent = b
        return self.product(kind, some, "bfp8", mantissa, sign, exponent, np.zeros(exponent.shape, np.int64), **options)

    def product(
        self,
        kind: str,
        a: BfpTensor,
        b_type: str,
        b: np.ndarray,
        b_sign: np.ndarray,
        b_exp: np.ndarray,
        w_scale: np.ndarray,
        **options: Any,
    ) -> Any:
        """One run; `y` as (rows, columns), its parts as matrices."""
        ports = {
            "a_sign": a.sign,
            "a_mag": a.mantissa,
            "a_exp": a.exponent,
            "b": b,
            "b_sign": b_sign,
            "b_exp": b_exp,
            "w_scale": w_scale,
        }
        flat = {name: np.asarray(port).reshape(-1) for name, port in ports.items()}
        return self.run(
            **flat, kind=kind, rows=len(a.sign), inner=a.sign.shape[1], columns=len(b), b_type=b_type, **options
        )


def same(result: Any, wanted: np.ndarray) -> bool:
    """Whether the words of a run are those of fp16 values, element by element."""
    return np.array_equal(np.ravel(result.y), fp16.bits(fp16.to_f16(np.ascontiguousarray(wanted, np.float32))).ravel())


def same_codes(result: Any, wanted: BfpTensor) -> bool:
    pairs = ((result.sign, wanted.sign), (result.mantissa, wanted.mantissa), (result.exponent, wanted.exponent))
    return all(np.array_equal(np.ravel(found), part.ravel()) for found, part in pairs)


def attended(core: Core, q: np.ndarray, held: Held, start: int) -> Iterator[tuple[str, bool]]:
    """Scores and context of every query head, queries (tokens, heads, head_dim) from position `start` on."""
    units, share = core.parts.units, q.shape[1] // held.heads
    scoring = Scoring(np.float32(1 / np.sqrt(np.float64(q.shape[2]))))
    wanted = attention.attend(units, q, held, start, scoring)
    for head in range(q.shape[1]):
        k, v = held.head(head // share)
        rows = np.ascontiguousarray(q[:, head])
        seen = start + 1 + np.arange(len(q))
        query, p = attention.scores(units, rows, k, v.shape[0], seen, scoring, "")
        scores = core.heads("score", query, np.s_[:], (k.sign, k.mantissa, k.exponent), start=start)
        length = k.shape[0]
        ends = BfpTensor(p.format, p.sign[:, :length], p.mantissa[:, :length], p.exponent[:, : -(-length // 32)], 1)
        yield f"score {head}", same_codes(scores, ends)
        columns = tuple(np.ascontiguousarray(part.T) for part in (v.sign, v.mantissa, v.exponent))
        kind = "final" if len(columns[0]) % 32 else "context"
        yield f"context {head}", same(core.heads(kind, p, np.s_[:], columns), wanted[:, head])


def products(core: Core, x: np.ndarray, cache: Any) -> Iterator[tuple[str, bool]]:
    """Every product of a block for its input x (tokens, width), and whether the core's is the scheme's; then x again.

    The cache is empty for a prompt.
    """
    parts, layer, start = core.parts, core.layer, len(cache)
    units, shape = parts.units, (len(x), -1, parts.model.head_dim)
    inside = parts.norm(f"blk.{layer}.attn_norm", x)
    q, k, v = (y.reshape(shape) for y in parts.linear(layer, ("q", "k", "v"), inside, Watch()))
    q, k = parts.rotate(q, start), parts.rotate(k, start)
    cache.append(k, v)
    online = parts.harmonia.online
    window = min(cache.prompt, 32) if online else 0
    frozen = {"frozen": cache.offset} if start and online else {}
    found = core.linear("q", inside, start=start)
    yield "q", same(found, q) and same_codes(found, units.encode(parts.activations, units.words(q)))
    shifted, _ = cache.words()
    for m in (4, 8):
        found = core.linear("k", inside, start=start, m=m, window=window, **frozen)
        yield (
            f"k at {m} bits",
            (
                np.array_equal(found.y, shifted.ravel())
                and same_codes(found, units.encode(parts.harmonia.format(m), shifted))
            ),
        )
        lost = found.offset.tolist() == cache.offset.tolist() if online else found.offset is None
        yield f"offset at {m} bits", lost
    found = core.linear("v", inside, m=cache.format.mantissa_bits)
    yield "v", same(found, v) and same_codes(found, units.encode(cache.format, units.words(v), 0))
    context = parts.attention(layer, q, cache, Watch())
    yield from attended(core, q[-1:], cache.held(), start + len(q) - 1)
    o = parts.linear(layer, ("o",), context, Watch())[0]
    yield "o", same(core.linear("o", context), o)
    x = parts.add(x, o)
    inside = parts.norm(f"blk.{layer}.ffn_norm", x)
    gate, up = parts.linear(layer, ("gate", "up"), inside, Watch())
    for name, y in (("gate", gate), ("up", up)):
        found = core.linear(name, inside)
        yield name, same(found, y) and same_codes(found, units.encode(parts.activations, units.words(y)))
    activated = core.linear("gate", inside, activation="silu")
    yield "silu", same(activated, parts.backend.apply16("silu", gate))
    inner = parts.activation(layer, gate, up, Watch())
    yield "down", same(core.linear("down", inner), parts.linear(layer, ("down",), inner, Watch())[0])


def block(model: Any, scheme: str, run: Any, prompt: int = PROMPT, steps: int = STEPS) -> dict[str, bool]:
    """All products of the first block: of a prompt, then of decode steps."""
    parts: Any = models.prepare(model, scheme)
    ids = np.arange(7, 7 + prompt + steps) * 37 % model.config.vocab
    core, cache, found = Core(parts, 0, run), parts.cache(0), {}
    for some in (ids[:prompt], *ids[prompt:, None]):
        for product, equal in products(core, parts.embed(some), cache):
            found[f"{product} from {len(cache) - len(some)}"] = equal
    assert len(found) == (1 + steps) * (11 + 2 * model.config.heads)
    return found


@pytest.mark.long
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_product_of_tiny(scheme: str) -> None:
    """D-harmonia-25, D-harmonia-26: interleaved pairs, heads of 16 channels, offsets frozen for what is decoded."""
    found = block(models.load("tiny"), scheme, harmonia_core.UNIT.run_compiled)

    assert [product for product, equal in found.items() if not equal] == []


@pytest.mark.long
def test_every_product_of_tiny_by_the_readable_core() -> None:
    """D-harmonia-26: a prompt of the window and two more tokens, and a decode step."""
    found = block(models.load("tiny"), "harmonia-kv4", harmonia_core.run, 34, 1)

    assert [product for product, equal in found.items() if not equal] == []


@pytest.mark.long
def test_prompt_shorter_than_window_freezes_its_offsets() -> None:
    """D-harmonia-26: five tokens, then tokens at positions inside the window, which are not tracked."""
    found = block(models.load("tiny"), "harmonia-kv4", harmonia_core.UNIT.run_compiled, 5, 3)

    assert [product for product, equal in found.items() if not equal] == []


@pytest.mark.long
@pytest.mark.model
@pytest.mark.parametrize("scheme", [pytest.param(SCHEMES[0], marks=pytest.mark.slow), *SCHEMES[1:]])
def test_every_product_of_smollm2(smollm2: Any, scheme: str) -> None:
    """D-harmonia-25, D-harmonia-26: nine heads of 64 channels on three of keys, reductions of 576 and 1536."""
    found = block(smollm2, scheme, harmonia_core.UNIT.run_compiled)

    assert [product for product, equal in found.items() if not equal] == []
