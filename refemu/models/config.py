"""Sizes of a decoder, kinds of its layers, and the names and shapes of its weights.

Canonical names: `embed`, `position`, `embed_norm`; `blk.<l>.attn_norm`, `.q`, `.k`, `.v`, `.q_norm`, `.k_norm`, `.o`,
`.attn_post_norm`, `.ffn_norm`, `.gate`, `.up`, `.down`, `.ffn_post_norm`; `norm`; `head`. A linear layer is (out, in),
row-major. The bias of `blk.3.q` is `blk.3.q.bias`. A mixture of experts has `blk.<l>.router` and
`blk.<l>.expert.<e>.gate`, `.up`, `.down`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from refemu.arith.attention.rope_scaling import RopeScaling
from refemu.arith.attention.scores import ScoreRule, alibi_slopes
from refemu.arith.checks import Refused
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.models.encoder.config import LINEARS, with_bias

GATED = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))  #: linear layers of a block, grouped by input


Activation: TypeAlias = Literal["silu", "gelu_tanh", "gelu_erf", "relu"]


@parameters
class ModelConfig:
    """A decoder of pre-norm blocks with grouped-query attention.

    By default Llama-like: RMSNorm, rotary positions, SwiGLU, no biases. GPT-2-like and OPT-like ones have LayerNorm,
    learned positions, biases, and a feed-forward half without a gate.
    docs/your-model.md lists the parts of the other families.
    """

    blocks: int
    width: int  #: width of the residual stream
    ffn: int  #: width inside the feed-forward half
    heads: int  #: query heads
    kv_heads: int  #: KV heads; query head h reads kv head h // (heads // kv_heads)
    head_dim: int
    vocab: int
    context: int  #: maximum number of positions
    rope_base: float = 10_000.0
    rope_interleaved: bool = True  #: pairs (2i, 2i + 1); False: (i, i + head_dim / 2)
    rms_eps: float = 9.999999747378752e-06  #: epsilon of every norm, under the root: float32 of 1e-5
    tied_head: bool = True  #: the output matrix is the embedding matrix
    norm: Literal["rms", "layer"] = "rms"  #: "layer": LayerNorm, which has a bias
    #: "learned": an embedding per position is added to that of the token; "alibi": slopes in the logits (D-arith-28)
    positions: Literal["rotary", "learned", "alibi"] = "rotary"
    activation: Activation = "silu"  #: applied to the gate, or to `up` without a gate
    gated: bool = True  #: `up` is multiplied by the activation of a gate
    bias: bool = False  #: every linear layer except the head has a bias
    qkv_bias: bool = False  #: q, k and v have a bias
    qk_norm: bool = False  #: RMSNorm of each head of q and k, before the rotation
    post_norms: bool = False  #: a norm after each block half, before the residual sum
    embed_norm: bool = False  #: a norm of the embeddings
    scaled_embed: bool = False  #: embeddings times sqrt(width) (D-arith-32)
    rotary_dim: int | None = None  #: channels of a head that are rotated, the first; None: all
    rope_scaling: RopeScaling | None = None  #: scaling of the rotary frequencies (D-arith-30)
    windows: tuple[int, ...] = ()  #: keys a query sees, by block (D-arith-29); 0: all; (): all everywhere
    attention_cap: float = 0.0  #: soft cap of the attention logits (D-arith-27); 0: none
    logit_cap: float = 0.0  #: soft cap of the head's logits; 0: none
    experts: int = 0  #: experts of a feed-forward half, of which a router chooses for each token (D-arith-33); 0: none
    experts_used: int = 0  #: experts that compute a token
    experts_normalized: bool = True  #: the weights of a token's experts are divided by their sum
    scale_dim: float | None = None  #: attention logits are divided by its square root; None: `head_dim`

    def __post_init__(self) -> None:
        plain_fields(self)
        sizes = ("blocks", "width", "ffn", "heads", "kv_heads", "head_dim", "vocab", "context")
        for name in sizes:
            if getattr(self, name) < 1:
                raise Refused(f"ModelConfig: {name} must be at least 1, got {getattr(self, name)}")
        require_options(self, "ModelConfig")
        if self.heads % self.kv_heads:
            raise Refused(f"ModelConfig: heads must be a multiple of kv_heads, got {self.heads}, {self.kv_heads}")
        if self.positions == "rotary" and (self.rotated % 2 or not 0 < self.rotated <= self.head_dim):
            name = "head_dim" if self.rotary_dim is None else "rotary_dim"
            raise Refused(f"ModelConfig: {name} must be even, got {self.rotated}")
        if self.windows and (len(self.windows) != self.blocks or min(self.windows) < 0):
            raise Refused(f"ModelConfig: windows must have {self.blocks} lengths of at least 0, got {self.windows}")
        for name in ("attention_cap", "logit_cap"):
            if not 0 <= getattr(self, name) < np.inf:
                raise Refused(f"ModelConfig: {name} must not be below 0, got {getattr(self, name)}")
        if self.experts and not (self.gated and 1 <= self.experts_used <= self.experts):
            got = f"{self.experts_used} of {self.experts}"
            raise Refused(f"ModelConfig: experts need a gate, and experts_used in [1, experts], got {got}")
        if self.scale_dim is not None and not 0 < self.scale_dim < np.inf:
            raise Refused(f"ModelConfig: scale_dim must be above 0, got {self.scale_dim}")
        if not self.rope_base > 1 or not self.rms_eps > 0:
            raise Refused(f"ModelConfig: need rope_base > 1 and rms_eps > 0, got {self.rope_base}, {self.rms_eps}")

    @property
    @lru_cache(maxsize=8)  # read for every tensor of a load  # noqa: B019
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Canonical name -> shape of every weight, in model order; `head` only where it is not tied."""
        table: dict[str, tuple[int, ...]] = {"embed": (self.vocab, self.width)}
        if self.embed_norm:
            table |= self._named("embed_norm", (self.width,))
        if self.positions == "learned":
            table["position"] = (self.context, self.width)
        for layer in range(self.blocks):
            for part, shape in self._block().items():
                table |= self._named(f"blk.{layer}.{part}", shape)
        table |= self._named("norm", (self.width,))
        return table if self.tied_head else table | {"head": (self.vocab, self.width)}

    @property
    def rotated(self) -> int:
        """Number of rotated channels of a head."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    @property
    def attention_scale(self) -> np.float32:
        """Factor of the attention logits: 1 / sqrt(head_dim), float32."""
        return np.float32(1.0 / np.sqrt(np.float64(self.scale_dim or self.head_dim)))

    def score_rule(self, layer: int) -> ScoreRule:
        """Operations on the attention logits of a block after the scale."""
        return ScoreRule(
            window=self.windows[layer] if self.windows else 0,
            cap=self.attention_cap,
            slopes=alibi_slopes(self.heads) if self.positions == "alibi" else (),
        )

    @property
    def shortest_window(self) -> int:
        """Fewest keys that a query of any block sees; 0: all."""
        return min((window for window in self.windows if window), default=0)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Linear layers of a block, grouped by input."""
        if not self.experts:
            return GATED if self.gated else LINEARS
        names = [f"expert.{number}." for number in range(self.experts)]
        inner = [group for each in names for group in ((each + "gate", each + "up"), (each + "down",))]
        return (*GATED[:2], ("router",), *inner)

    @property
    def unlike_llama(self) -> tuple[str, ...]:
        """Names of the parts that a Llama-like decoder does not have."""
        features = {
            "LayerNorm": self.norm == "layer",
            "learned positions": self.positions == "learned",
            "ALiBi": self.positions == "alibi",
            "biases": self.bias,
            f"{self.activation} without a gate": not self.gated,
            f"{self.activation} of a gate": self.gated and self.activation != "silu",
            "biases of q, k and v": self.qkv_bias,
            "norms of q and k": self.qk_norm,
            "norms after block halves": self.post_norms,
            "a norm of embeddings": self.embed_norm,
            "scaled embeddings": self.scaled_embed,
            "partial rotation": self.rotated != self.head_dim,
            "rotary scaling": self.rope_scaling is not None,
            "sliding windows": bool(self.shortest_window),
            "a mixture of experts": self.experts > 0,
            "soft caps": bool(self.attention_cap or self.logit_cap),
            "its own attention scale": self.scale_dim not in (None, self.head_dim),
        }
        return tuple(word for word, there in features.items() if there)

    @property
    def meaning(self) -> str:
        """Description of the decoder, for messages."""
        more = ", ".join(self.unlike_llama)
        return f"a decoder with {more}" if more else "a Llama-like decoder"

    def _named(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        part = name.rpartition(".")[2]
        linear = self.bias or (self.qkv_bias and part in GATED[0])
        biased = linear if len(shape) == 2 else self.norm == "layer"
        return with_bias(name, shape) if biased else {name: shape}

    def _block(self) -> dict[str, tuple[int, ...]]:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "attn_norm": (self.width,),
            "q": (queries, self.width),
            "k": (keys, self.width),
            "v": (keys, self.width),
            **(dict.fromkeys(("q_norm", "k_norm"), (self.head_dim,)) if self.qk_norm else {}),
            "o": (self.width, queries),
            **({"attn_post_norm": (self.width,)} if self.post_norms else {}),
            "ffn_norm": (self.width,),
            **self._feed_forward(),
            **({"ffn_post_norm": (self.width,)} if self.post_norms else {}),
        }

    def _feed_forward(self) -> dict[str, tuple[int, ...]]:
        inner: dict[str, tuple[int, ...]] = {
            **({"gate": (self.ffn, self.width)} if self.gated else {}),
            "up": (self.ffn, self.width),
            "down": (self.width, self.ffn),
        }
        if not self.experts:
            return inner
        each = {f"expert.{number}.{part}": shape for number in range(self.experts) for part, shape in inner.items()}
        return {"router": (self.experts, self.width), **each}

    def macs(self, tokens: int) -> int:
        """Multiply-accumulates for a prompt of `tokens` tokens: linear layers, head, causal attention."""
        unused = tuple(f"expert.{number}." for number in range(self.experts_used, self.experts))
        shapes = [shape for part, shape in self._block().items() if len(shape) == 2 and not part.startswith(unused)]
        linear = [rows * columns for rows, columns in shapes]
        pairs = tokens * (tokens + 1) // 2
        attention = 2 * pairs * self.heads * self.head_dim
        total = self.vocab * self.width * tokens
        for count in linear:
            total += self.blocks * count * tokens
        return total + self.blocks * attention
