"""Sizes of a BERT-like encoder, and the names and shapes of its weights.

Canonical names: `embed` (words), `position`, `token_type`, `embed_norm`; `blk.<l>.q`, `.k`, `.v`, `.o`, `.attn_norm`,
`.up`, `.down`, `.ffn_norm`. Linear layers, (out, in) row-major, and norms have a bias each: `blk.3.q.bias`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from refemu.arith.checks import Refused
from refemu.arith.records import parameters, plain_fields

LINEARS = (("q", "k", "v"), ("o",), ("up",), ("down",))  #: linear layers of a block, grouped by input
BIAS = ".bias"  #: suffix of the name of a bias


@parameters
class EncoderConfig:
    """An encoder of post-norm blocks: LayerNorm after each residual sum, learned positions, GELU, biases throughout."""

    meaning: ClassVar[str] = "a BERT-like encoder"
    groups: ClassVar[tuple[tuple[str, ...], ...]] = LINEARS  #: linear layers of a block, grouped by input
    bias: ClassVar[bool] = True  #: every linear layer has a bias

    blocks: int
    width: int  #: width of the hidden states
    ffn: int  #: width inside the feed-forward half
    heads: int
    vocab: int
    context: int  #: number of position embeddings
    token_types: int = 2  #: rows of `token_type`; every token is of type 0
    norm_eps: float = 1e-12

    def __post_init__(self) -> None:
        plain_fields(self)
        for name in ("blocks", "width", "ffn", "heads", "vocab", "context", "token_types"):
            if getattr(self, name) < 1:
                raise Refused(f"EncoderConfig: {name} must be at least 1, got {getattr(self, name)}")
        if self.width % self.heads:
            raise Refused(f"EncoderConfig: width must be a multiple of heads, got {self.width}, {self.heads}")
        if not self.norm_eps > 0:
            raise Refused(f"EncoderConfig: norm_eps must be above 0, got {self.norm_eps}")

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.width // self.heads

    @property
    @lru_cache(maxsize=8)  # read for every tensor of a load  # noqa: B019
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Canonical name -> shape of every weight, in model order."""
        table: dict[str, tuple[int, ...]] = {
            "embed": (self.vocab, self.width),
            "position": (self.context, self.width),
            "token_type": (self.token_types, self.width),
        } | with_bias("embed_norm", (self.width,))
        for layer in range(self.blocks):
            for part, shape in self._block().items():
                table |= with_bias(f"blk.{layer}.{part}", shape)
        return table

    def _block(self) -> dict[str, tuple[int, ...]]:
        square, norm = (self.width, self.width), (self.width,)
        return {
            "q": square,
            "k": square,
            "v": square,
            "o": square,
            "attn_norm": norm,
            "up": (self.ffn, self.width),
            "down": (self.width, self.ffn),
            "ffn_norm": norm,
        }

    def macs(self, tokens: int) -> int:
        """Multiply-accumulates for a text of `tokens` tokens: linear layers, attention between all tokens."""
        linear = 4 * self.width * self.width + 2 * self.width * self.ffn
        return self.blocks * tokens * (linear + 2 * tokens * self.width)


def with_bias(name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """A weight and its bias: shapes by name."""
    return {name: shape, name + BIAS: shape[:1]}
