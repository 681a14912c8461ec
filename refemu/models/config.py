"""The sizes of a Llama-like decoder, and the names and shapes of its weights that follow from them.

Canonical names: `embed`; `blk.<l>.attn_norm`, `.q`, `.k`, `.v`, `.o`, `.ffn_norm`, `.gate`, `.up`, `.down`; `norm`;
`head`. A linear layer is (out, in), row-major, as every file format stores it.
"""

from dataclasses import dataclass
from typing import ClassVar

from refemu.arith.checks import Refused


@dataclass(frozen=True)
class ModelConfig:
    """A decoder of pre-norm blocks: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases."""

    meaning: ClassVar[str] = "a Llama-like decoder"

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
    rms_eps: float = 9.999999747378752e-06  #: float32 of 1e-5
    tied_head: bool = True  #: the output matrix is the embedding

    def __post_init__(self) -> None:
        sizes = ("blocks", "width", "ffn", "heads", "kv_heads", "head_dim", "vocab", "context")
        for name in sizes:
            if getattr(self, name) < 1:
                raise Refused(f"ModelConfig: {name} must be at least 1, got {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise Refused(f"ModelConfig: heads must be a multiple of kv_heads, got {self.heads}, {self.kv_heads}")
        if self.head_dim % 2:
            raise Refused(f"ModelConfig: head_dim must be even, got {self.head_dim}")
        if not self.rope_base > 1 or not self.rms_eps > 0:
            raise Refused(f"ModelConfig: need rope_base > 1 and rms_eps > 0, got {self.rope_base}, {self.rms_eps}")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Canonical name -> shape of every weight, in model order; `head` only where it is not tied."""
        table: dict[str, tuple[int, ...]] = {"embed": (self.vocab, self.width)}
        for layer in range(self.blocks):
            table |= {f"blk.{layer}.{part}": shape for part, shape in self._block().items()}
        table["norm"] = (self.width,)
        return table if self.tied_head else table | {"head": (self.vocab, self.width)}

    def _block(self) -> dict[str, tuple[int, ...]]:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "attn_norm": (self.width,), "q": (queries, self.width), "k": (keys, self.width), "v": (keys, self.width),
            "o": (self.width, queries), "ffn_norm": (self.width,), "gate": (self.ffn, self.width),
            "up": (self.ffn, self.width), "down": (self.width, self.ffn),
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
