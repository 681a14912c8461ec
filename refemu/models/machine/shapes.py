"""Sizes of the models of the papers' tables, without weights: what the cost of a machine needs."""

from dataclasses import dataclass
from typing import NamedTuple

from refemu.arith.checks import lookup


class Linear(NamedTuple):
    """A linear layer of a block."""

    name: str  #: "q", "down", ...
    inputs: int  #: length of the sums
    outputs: int
    experts: int = 1  #: copies of it, of which a token uses `active`
    active: int = 1

    def used(self, tokens: int) -> int:
        """Copies that some tokens use; every token uses other ones as long as there are some."""
        return min(self.experts, self.active * tokens)

    def rows(self, tokens: int) -> list[int]:
        """Rows that each used copy multiplies, spread evenly."""
        used, rows = self.used(tokens), self.active * tokens
        return [rows // used + (copy < rows % used) for copy in range(used)]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model."""

    name: str
    blocks: int
    width: int
    heads: int
    kv_heads: int
    ffn: int  #: values between up and down
    vocab: int  #: outputs of the head; 0: no head
    gated: bool = True  #: gate and up, or up alone
    norm: str = "rms"  #: "rms" or "layer"
    biases: bool = False
    head_size: int = 0  #: values of a head; 0: width / heads
    experts: int = 1
    active: int = 1  #: experts of a token
    encoder: bool = False  #: every token sees every token, and there is no decoding

    @property
    def head_dim(self) -> int:
        """Values of a head."""
        return self.head_size or self.width // self.heads

    @property
    def groups(self) -> dict[str, tuple[Linear, ...]]:
        """Linear layers of a block by the tensor that they read, in order."""
        inner, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shared = self.experts, self.active
        up = (Linear("up", self.width, self.ffn, *shared),)
        gate = (Linear("gate", self.width, self.ffn, *shared),) if self.gated else ()
        router = (Linear("router", self.width, self.experts),) if self.experts > 1 else ()
        qkv = Linear("q", self.width, inner), Linear("k", self.width, kv), Linear("v", self.width, kv)
        return {
            "attn_in": qkv,
            "o_in": (Linear("o", inner, self.width),),
            "ffn_in": (*router, *gate, *up),
            "down_in": (Linear("down", self.ffn, self.width, *shared),),
        }

    @property
    def weights(self) -> int:
        """Weights of all linear layers of a block."""
        return sum(int(each.inputs * each.outputs * each.experts) for group in self.groups.values() for each in group)


def _opt(name: str, blocks: int, width: int, heads: int, vocab: int) -> Shape:
    return Shape(name, blocks, width, heads, heads, 4 * width, vocab, gated=False, norm="layer", biases=True)


def _bert(name: str, blocks: int, width: int, heads: int) -> Shape:
    wide = 4 * width
    return Shape(name, blocks, width, heads, heads, wide, 0, gated=False, norm="layer", biases=True, encoder=True)


#: by name; sizes are those of the models' published configurations
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("llama-7b", 32, 4096, 32, 32, 11008, 32000),
        Shape("llama-13b", 40, 5120, 40, 40, 13824, 32000),
        Shape("llama-30b", 60, 6656, 52, 52, 17920, 32000),
        Shape("llama-2-7b", 32, 4096, 32, 32, 11008, 32000),
        Shape("llama-2-13b", 40, 5120, 40, 40, 13824, 32000),
        Shape("llama-2-70b", 80, 8192, 64, 8, 28672, 32000),
        Shape("llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256),
        Shape("llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256),
        Shape("llama-3-8b", 32, 4096, 32, 8, 14336, 128256),
        Shape("llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256),
        Shape("llama-3-70b", 80, 8192, 64, 8, 28672, 128256),
        Shape("llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256),
        Shape("mistral-7b", 32, 4096, 32, 8, 14336, 32000),
        Shape("mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, experts=8, active=2),
        Shape("phi-4", 40, 5120, 40, 10, 17920, 100352),
        _opt("opt-6.7b", 32, 4096, 32, 50272),
        _opt("opt-175b", 96, 12288, 96, 50272),
        _opt("bloom-7b1", 30, 4096, 32, 250880),
        _opt("gpt2-xl", 48, 1600, 25, 50257),
        _bert("bert-base", 12, 768, 12),
        _bert("bert-large", 24, 1024, 16),
    )
}


def find(name: str) -> Shape:
    """The shape of a name; raises Refused for others, with the nearest match."""
    return lookup("shape", name, SHAPES)
