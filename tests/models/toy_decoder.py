"""Small GPT-2-like and OPT-like decoders for tests: weights, their folder as Hugging Face lays it out, and a forward in
float64, of Llama-like ones too, that bounds step by step what the roundings of scheme `fp16` can do.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from scipy import special

from refemu.models.config import ModelConfig
from tests.models.held import drawn

GPT2 = ModelConfig(
    blocks=2,
    width=12,
    ffn=20,
    heads=3,
    kv_heads=3,
    head_dim=4,
    vocab=17,
    context=24,
    norm="layer",
    positions="learned",
    gated=False,
    activation="gelu_tanh",
    bias=True,
)
OPT = ModelConfig(
    blocks=2,
    width=12,
    ffn=20,
    heads=2,
    kv_heads=2,
    head_dim=6,
    vocab=17,
    context=24,
    norm="layer",
    positions="learned",
    gated=False,
    activation="relu",
    bias=True,
)
LLAMA = ModelConfig(
    blocks=2,
    width=12,
    ffn=20,
    heads=6,
    kv_heads=2,
    head_dim=4,
    vocab=17,
    context=24,
    rope_interleaved=False,
    tied_head=False,
)
CONFIGS = {"gpt2": GPT2, "opt": OPT, "llama": LLAMA}
OPT_PARTS = {
    "attn_norm": "self_attn_layer_norm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.out_proj",
    "ffn_norm": "final_layer_norm",
    "up": "fc1",
    "down": "fc2",
}


def values(config: ModelConfig, seed: int = 3) -> dict[str, np.ndarray]:
    """Seeded float32 weights by canonical name, each an fp16 value."""
    return {name: draw.astype(np.float16).astype(np.float32) for name, draw in drawn(config.shapes, seed, 3).items()}


def gpt2_tensors(w: dict[str, np.ndarray], start: str = "transformer.") -> dict[str, np.ndarray]:
    """The tensors of a GPT-2-like file: linear layers (in, out), query, key and value in one."""
    found = {
        f"{start}wte.weight": w["embed"],
        f"{start}wpe.weight": w["position"],
        f"{start}ln_f.weight": w["norm"],
        f"{start}ln_f.bias": w["norm.bias"],
    }
    for layer in range(GPT2.blocks):
        to, at = f"{start}h.{layer}.", f"blk.{layer}."
        found[to + "attn.c_attn.weight"] = np.concatenate([w[at + part].T for part in "qkv"], axis=1)
        found[to + "attn.c_attn.bias"] = np.concatenate([w[at + part + ".bias"] for part in "qkv"])
        for raw, part in (("attn.c_proj", "o"), ("mlp.c_fc", "up"), ("mlp.c_proj", "down")):
            found |= {f"{to}{raw}.weight": w[at + part].T.copy(), f"{to}{raw}.bias": w[at + part + ".bias"]}
        for raw, part in (("ln_1", "attn_norm"), ("ln_2", "ffn_norm")):
            found |= {f"{to}{raw}.weight": w[at + part], f"{to}{raw}.bias": w[at + part + ".bias"]}
    return found


def opt_tensors(w: dict[str, np.ndarray], start: str = "model.decoder.") -> dict[str, np.ndarray]:
    """The tensors of an OPT-like file: two rows of 1,000 before position 0, which nothing may read."""
    front = np.full((2, OPT.width), 1000, np.float32)
    found = {
        f"{start}embed_tokens.weight": w["embed"],
        f"{start}final_layer_norm.weight": w["norm"],
        f"{start}embed_positions.weight": np.concatenate([front, w["position"]]),
        f"{start}final_layer_norm.bias": w["norm.bias"],
    }
    for layer in range(OPT.blocks):
        for part, raw in OPT_PARTS.items():
            for there, here in ((".weight", ""), (".bias", ".bias")):
                found[f"{start}layers.{layer}.{raw}{there}"] = w[f"blk.{layer}.{part}{here}"]
    return found


SETTINGS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "model_type": "gpt2",
        "n_layer": 2,
        "n_embd": 12,
        "n_inner": 20,
        "n_head": 3,
        "vocab_size": 17,
        "n_positions": 24,
        "n_ctx": 24,
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
        "scale_attn_weights": True,
        "resid_pdrop": 0.1,
    },
    "opt": {
        "model_type": "opt",
        "num_hidden_layers": 2,
        "hidden_size": 12,
        "word_embed_proj_dim": 12,
        "ffn_dim": 20,
        "num_attention_heads": 2,
        "vocab_size": 17,
        "max_position_embeddings": 24,
        "activation_function": "relu",
        "do_layer_norm_before": True,
        "enable_bias": True,
        "_remove_final_layer_norm": False,
        "dropout": 0.1,
    },
}


def write(folder: Path, kind: str, tensors: dict[str, np.ndarray], **settings: Any) -> Path:
    """A folder with model.safetensors and config.json; a setting of `...` is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(value) for name, value in tensors.items()}, folder / "model.safetensors"
    )
    merged = {key: value for key, value in {**SETTINGS[kind], **settings}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(merged), "utf-8")
    return folder


U16, U32 = 2.0**-11, 2.0**-24  #: half an ulp of fp16 and of float32, relative
Bounded = tuple[np.ndarray, np.ndarray]  #: a step in float64, and how far the scheme's roundings may lead from it
Settle = Callable[[np.ndarray, np.ndarray], np.ndarray]


def forward(model: Any, ids: list[int], settle: Settle = lambda value, bound: value) -> np.ndarray:
    """Logits (tokens, vocabulary) in plain float64.

    settle: called after every step with its value and the bound on what the roundings of scheme `fp16` can do in this
    step; its result is the input of the next one. Weights must be fp16 values.
    """
    c, w = model.config, {name: np.asarray(model.tensor(name), np.float64) for name in model.config.shapes}

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        if c.norm == "rms":
            return settle(*half(rmsnorm(x, w[name], c.rms_eps)))
        return settle(*half(layernorm(x, w[name], w[name + ".bias"], c.rms_eps)))

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return settle(*half(product(x, w[name], w.get(name + ".bias", np.zeros(len(w[name]))))))

    def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return settle(*half((x + y, U32 * np.abs(x + y))))

    def turn(x: np.ndarray) -> np.ndarray:
        return settle(*half(rotation(x, c))) if c.positions == "rotary" else x

    def headed(name: str, x: np.ndarray) -> np.ndarray:
        return norm(name, x.reshape(len(x), -1, c.head_dim)).reshape(x.shape) if c.qk_norm else x

    def behind(name: str, x: np.ndarray) -> np.ndarray:
        return norm(name, x) if c.post_norms else x

    def mixture(at: str, y: np.ndarray) -> np.ndarray:
        total = np.zeros_like(y)
        for token, (chosen, weights) in enumerate(routed(linear(at + "router", y), c)):
            for number, weight in sorted(zip(chosen, settle(*weights), strict=True)):
                each, row = f"{at}expert.{number}.", y[token : token + 1]
                inner = settle(*glu(c.activation, linear(each + "gate", row), linear(each + "up", row)))
                out = linear(each + "down", inner)
                part = settle(*half((out * weight, 0 * out)))
                total[token] = settle(*half((total[token] + part[0], U32 * np.abs(total[token] + part[0]))))
        return total

    x = w["embed"][ids]
    if c.scaled_embed:
        x = settle(*half((x * np.sqrt(c.width), steps(2) * np.abs(x) * np.sqrt(c.width))))
    if c.positions == "learned":
        x = add(x, w["position"][: len(ids)])
    if c.embed_norm:
        x = norm("embed_norm", x)
    for layer in range(c.blocks):
        at = f"blk.{layer}."
        y = norm(at + "attn_norm", x)
        q, k, v = (linear(at + part, y) for part in "qkv")
        q, k = turn(headed(at + "q_norm", q)), turn(headed(at + "k_norm", k))
        mixed = settle(*half(attention(q, k, v, c, layer)))
        x = add(x, behind(at + "attn_post_norm", linear(at + "o", mixed)))
        y = norm(at + "ffn_norm", x)
        if c.experts:
            x = add(x, behind(at + "ffn_post_norm", mixture(at, y)))
            continue
        if c.gated:
            inner = glu(c.activation, linear(at + "gate", y), linear(at + "up", y))
        else:
            inner = activation(c.activation, linear(at + "up", y))
        x = add(x, behind(at + "ffn_post_norm", linear(at + "down", settle(*inner))))
    y, bound = product(norm("norm", x), w["embed" if c.tied_head else "head"], np.zeros(c.vocab))
    return settle(*capped(y, bound, c.logit_cap))


def reach(model: Any, ids: list[int], move: float = 1e-6) -> np.ndarray:
    """How far the roundings of scheme `fp16` can lead logits (tokens, vocabulary) from float64, to first order.

    The bound on every value of every step times the magnitudes of the logits' derivatives by it, which are found by
    moving that one value.
    """
    bounds: list[np.ndarray] = []

    def keep(value: np.ndarray, bound: np.ndarray) -> np.ndarray:
        bounds.append(bound)
        return value

    model = InMemory(model)
    base = forward(model, ids, keep)
    total = np.zeros_like(base)
    for step, bound in enumerate(bounds):
        for place in np.ndindex(bound.shape):
            total += np.abs(forward(model, ids, _nudge(step, place, move)) - base) * (bound[place] / move)
    return total


class InMemory:
    """The sizes and weights of a model, decoded once, float64."""

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self._weights = {name: model.tensor(name).astype(np.float64) for name in model.config.shapes}

    def tensor(self, name: str) -> np.ndarray:
        return self._weights[name]


def _nudge(step: int, place: tuple[int, ...], by: float) -> Settle:
    """Add `by` to one value of one step."""
    count = iter(range(1 << 30))

    def settle(value: np.ndarray, bound: np.ndarray) -> np.ndarray:
        if next(count) == step:
            value = value.copy()
            value[place] += by
        return value

    return settle


def half(x: Bounded) -> Bounded:
    """Rounded to fp16; 2**-25 is half the smallest subnormal number."""
    return x[0], x[1] + U16 * (np.abs(x[0]) + x[1]) + 2.0**-25


def steps(count: int) -> float:
    """Relative error of as many float32 operations in a row."""
    return count * U32 / (1 - count * U32)


def product(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Bounded:
    size = np.abs(x) @ np.abs(weight).T + np.abs(bias)
    return x @ weight.T + bias, steps(x.shape[-1] + 2) * size


def layernorm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray, eps: float) -> Bounded:
    n, mean = x.shape[-1], x.mean(-1, keepdims=True)
    d, off = x - mean, steps(n + 2) * (np.abs(x) + np.abs(x).mean(-1, keepdims=True))
    root = np.sqrt((d * d).mean(-1, keepdims=True) + eps)
    apart = np.sqrt((off * off).mean(-1, keepdims=True))  # the root of a sum of squares has slope 1 at most
    apart = apart + steps(n + 6) * (root + apart)
    y = d / root
    error = (off + np.abs(y) * apart) / (root - apart)
    return y * gain + bias, np.abs(gain) * error + steps(5) * (np.abs(gain) * (np.abs(y) + error) + np.abs(bias))


def rmsnorm(x: np.ndarray, gain: np.ndarray, eps: float) -> Bounded:
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain
    return y, steps(x.shape[-1] + 6) * np.abs(y)


def frequencies(c: ModelConfig, tokens: int) -> tuple[np.ndarray, float]:
    """Radians per position of every pair, and what cosines and sines are multiplied by, from the published formulas."""
    pairs, scaling = np.arange(c.rotated // 2), c.rope_scaling
    plain = c.rope_base ** (-2 * pairs / c.rotated)
    kind = type(scaling).__name__
    if kind == "LinearScaling":
        return plain / scaling.factor, 1.0
    if kind == "Llama3Scaling":
        waves = scaling.original * plain / (2 * np.pi)
        share = np.clip((waves - scaling.low) / (scaling.high - scaling.low), 0, 1)
        return plain * (share + (1 - share) / scaling.factor), 1.0
    if kind == "YarnScaling":
        turns = scaling.original / (2 * np.pi * np.array([scaling.fast, scaling.slow]))
        ends = c.rotated * np.log(turns) / (2 * np.log(c.rope_base))
        low, high = (np.floor(ends[0]), np.ceil(ends[1])) if scaling.truncate else ends
        low, high = max(low, 0), min(high, c.rotated - 1)
        ramp = np.clip((pairs - low) / (high - low if high != low else 0.001), 0, 1)
        return plain * (1 - ramp + ramp / scaling.factor), scaling.gain
    if kind == "FactorScaling":
        long = scaling.long and tokens > scaling.original
        return plain / np.array(scaling.long if long else scaling.short), scaling.gain
    return plain, 1.0


def rotation(x: np.ndarray, c: ModelConfig) -> Bounded:
    """Two products and a sum; an entry of a table has one rounding. Channels after `c.rotated` are unchanged."""
    whole, size = x.reshape(len(x), -1, c.head_dim).copy(), np.zeros((len(x), x.shape[1] // c.head_dim, c.head_dim))
    pairs = whole[..., : c.rotated].copy()
    radians, gain = frequencies(c, len(x))
    angle = np.arange(len(x))[:, None, None] * radians
    first = slice(0, c.rotated, 2) if c.rope_interleaved else slice(0, c.rotated // 2)
    second = slice(1, c.rotated, 2) if c.rope_interleaved else slice(c.rotated // 2, c.rotated)
    a, b = pairs[..., first], pairs[..., second]
    cos, sin = gain * np.cos(angle), gain * np.sin(angle)
    whole[..., first], whole[..., second] = a * cos - b * sin, a * sin + b * cos
    size[..., first] = size[..., second] = gain * (np.abs(a) + np.abs(b))
    return whole.reshape(x.shape), steps(3) * size.reshape(x.shape)


def capped(x: np.ndarray, error: np.ndarray, cap: float) -> Bounded:
    """cap * tanh(x / cap), whose slope is at most 1; a quotient, a function and a product are rounded."""
    if not cap:
        return x, error
    y = cap * np.tanh(x / cap)
    return y, error + steps(4) * np.abs(x)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, c: ModelConfig, layer: int) -> Bounded:
    """A factor of exp(error of the logit) on each weight, and the mean of these on their sum."""
    tokens, width = len(q), c.head_dim
    q, k, v = (part.reshape(tokens, -1, width).transpose(1, 0, 2) for part in (q, k, v))
    k, v = (np.repeat(part, c.heads // c.kv_heads, axis=0) for part in (k, v))
    apart = np.arange(tokens)[:, None] - np.arange(tokens)
    window = c.windows[layer] if c.windows else 0
    seen, scale = (apart >= 0) & (apart < (window or tokens)), 1 / np.sqrt(c.scale_dim or width)
    s, error = q @ k.transpose(0, 2, 1) * scale, steps(width + 3) * (np.abs(q) @ np.abs(k).transpose(0, 2, 1)) * scale
    s, error = capped(s, error, c.attention_cap)
    if c.positions == "alibi":
        bias = -slopes(c.heads)[:, None, None] * apart
        s, error = s + bias, error + steps(2) * np.abs(bias) + U32 * np.abs(s + bias)
    s, error = np.where(seen, s, -np.inf), np.where(seen, error, 0)
    size = np.where(seen, np.abs(s), 0)
    factor = np.exp(error + 2 * U32 * size.max(-1, keepdims=True))
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    factor = factor * (p * factor).sum(-1, keepdims=True)
    share = p * (factor * (1 + steps(2 * tokens + 6)) - 1)  # and of the sum over the values
    mixed, error = p @ v, share @ np.abs(v)
    return mixed.transpose(1, 0, 2).reshape(tokens, -1), error.transpose(1, 0, 2).reshape(tokens, -1)


def slopes(heads: int) -> np.ndarray:
    """ALiBi's slopes: those of the largest power of two, then every other one of twice as many."""
    even = 2 ** int(np.log2(heads))
    first = 2.0 ** (-8 / even * np.arange(1, even + 1))
    return np.concatenate([first, 2.0 ** (-4 / even * np.arange(1, 2 * (heads - even), 2))])


def routed(logits: np.ndarray, c: ModelConfig) -> list[tuple[list[int], Bounded]]:
    """Experts of each token, and their weights: a softmax whose steps are rounded, then a sum, a quotient, fp16."""
    found = []
    for row in logits:
        share = np.exp(row - row.max())
        share = share / share.sum()
        chosen = sorted(range(c.experts), key=lambda number: (-share[number], number))[: c.experts_used]
        weight = share[chosen]
        weight = weight / weight.sum() if c.experts_normalized else weight
        error = steps(3 * c.experts + 4 * c.experts_used + 8) * weight * (1 + 2 * np.abs(row).max())
        found.append((chosen, half((weight, error))))
    return found


def glu(name: str, gate: np.ndarray, up: np.ndarray) -> Bounded:
    """A function by table, rounded to fp16, times `up`, rounded to fp16."""
    value, error = half((gate / (1 + np.exp(-gate)), 0 * gate)) if name == "silu" else activation(name, gate)
    return half((value * up, error * np.abs(up)))


def activation(name: str, x: np.ndarray) -> Bounded:
    """ReLU, which rounds nothing, or GELU, rounded to fp16."""
    if name == "relu":
        return np.maximum(x, 0), 0 * x
    if name == "gelu_erf":
        return half((x / 2 * special.erfc(-x / np.sqrt(2)), 0 * x))
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return half((x / 2 * (1 + np.tanh(inner)), 0 * x))
