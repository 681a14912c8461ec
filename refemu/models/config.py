"""Sizes of a decoder, kinds of its layers, and the names and shapes of its weights that follow.

Canonical names: `embed`, `position`; `blk.<l>.attn_norm`, `.q`, `.k`, `.v`, `.o`, `.ffn_norm`, `.gate`, `.up`, `.down`;
`norm`; `head`. A linear layer is (out, in), row-major. What has a bias has it under its own name: `blk.3.q.bias`.
"""

from typing import Literal, TypeAlias

from refemu.arith.checks import Refused
from refemu.arith.records import parameters, plain_fields, require_options
from refemu.models.encoder.config import LINEARS, with_bias

GATED = (("q", "k", "v"), ("o",), ("gate", "up"), ("down",))  #: linear layers of a block; a group reads one input


Activation: TypeAlias = Literal["silu", "gelu_tanh", "gelu_erf", "relu"]


@parameters
class ModelConfig:
    """A decoder of pre-norm blocks with grouped-query attention.

    By default Llama-like: RMSNorm, rotary positions, SwiGLU, no biases. GPT-2-like and OPT-like ones have LayerNorm,
    learned positions, biases, and a feed-forward half without a gate.
    """

    blocks: int
    width: int  #: of the residual stream
    ffn: int  #: width inside the feed-forward half
    heads: int  #: of queries
    kv_heads: int  #: of keys and values; query head h reads kv head h // (heads // kv_heads)
    head_dim: int
    vocab: int
    context: int  #: positions the model was made for
    rope_base: float = 10_000.0
    rope_interleaved: bool = True  #: pairs (2i, 2i + 1); False: (i, i + head_dim / 2)
    rms_eps: float = 9.999999747378752e-06  #: under the root of every norm: float32 of 1e-5
    tied_head: bool = True  #: the output matrix is the embedding
    norm: Literal["rms", "layer"] = "rms"  #: "layer": LayerNorm, which has a bias
    #: "learned": an embedding of each position, added to that of the token
    positions: Literal["rotary", "learned"] = "rotary"
    #: silu(gate) * up (SwiGLU); "gelu_tanh", "gelu_erf", "relu": of `up`, without a gate
    activation: Activation = "silu"
    bias: bool = False  #: every linear layer but the head has one

    def __post_init__(self) -> None:
        plain_fields(self)
        sizes = ("blocks", "width", "ffn", "heads", "kv_heads", "head_dim", "vocab", "context")
        for name in sizes:
            if getattr(self, name) < 1:
                raise Refused(f"ModelConfig: {name} must be at least 1, got {getattr(self, name)}")
        require_options(self, "ModelConfig")
        if self.heads % self.kv_heads:
            raise Refused(f"ModelConfig: heads must be a multiple of kv_heads, got {self.heads}, {self.kv_heads}")
        if self.head_dim % 2 and self.positions == "rotary":
            raise Refused(f"ModelConfig: head_dim must be even, got {self.head_dim}")
        if not self.rope_base > 1 or not self.rms_eps > 0:
            raise Refused(f"ModelConfig: need rope_base > 1 and rms_eps > 0, got {self.rope_base}, {self.rms_eps}")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Canonical name -> shape of every weight, in model order; `head` only where it is not tied."""
        table: dict[str, tuple[int, ...]] = {"embed": (self.vocab, self.width)}
        if self.positions == "learned":
            table["position"] = (self.context, self.width)
        for layer in range(self.blocks):
            for part, shape in self._block().items():
                table |= self._named(f"blk.{layer}.{part}", shape)
        table |= self._named("norm", (self.width,))
        return table if self.tied_head else table | {"head": (self.vocab, self.width)}

    @property
    def gated(self) -> bool:
        """Whether the feed-forward half multiplies `up` by a function of `gate`."""
        return self.activation == "silu"

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The linear layers of a block; those of a group read one input."""
        return GATED if self.gated else LINEARS

    @property
    def unlike_llama(self) -> tuple[str, ...]:
        """The layers that a Llama-like decoder does not have, in words."""
        features = {
            "LayerNorm": self.norm == "layer",
            "learned positions": self.positions == "learned",
            "biases": self.bias,
            f"{self.activation} without a gate": not self.gated,
        }
        return tuple(word for word, there in features.items() if there)

    @property
    def meaning(self) -> str:
        """Kind of the decoder, for messages."""
        more = ", ".join(self.unlike_llama)
        return f"a decoder with {more}" if more else "a Llama-like decoder"

    def _named(self, name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        biased = self.bias if len(shape) == 2 else self.norm == "layer"
        return with_bias(name, shape) if biased else {name: shape}

    def _block(self) -> dict[str, tuple[int, ...]]:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        gate = {"gate": (self.ffn, self.width)} if self.gated else {}
        return {
            "attn_norm": (self.width,),
            "q": (queries, self.width),
            "k": (keys, self.width),
            "v": (keys, self.width),
            "o": (self.width, queries),
            "ffn_norm": (self.width,),
            **gate,
            "up": (self.ffn, self.width),
            "down": (self.width, self.ffn),
        }

    def macs(self, tokens: int) -> int:
        """Multiply-accumulates of a prompt of `tokens` tokens: linear layers, head, causal attention."""
        linear = [rows * columns for rows, columns in (s for s in self._block().values() if len(s) == 2)]
        pairs = tokens * (tokens + 1) // 2
        attention = 2 * pairs * self.heads * self.head_dim
        total = self.vocab * self.width * tokens
        for count in linear:
            total += self.blocks * count * tokens
        return total + self.blocks * attention
