"""Sizes of the models of [leankv §7.1], without weights, from their published configurations."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of a decoder with grouped-query attention and a gated feed-forward half, of one or several experts."""

    blocks: int
    width: int  #: width of the residual stream
    ffn: int  #: width inside the feed-forward half, of one expert
    heads: int  #: query heads
    kv_heads: int
    head_dim: int
    vocab: int
    context: int  #: maximum number of positions
    experts: int = 1  #: feed-forward halves of a block
    active: int = 1  #: experts that a token uses
    gated: bool = True  #: the feed-forward half has three matrices, not two

    def parameters(self, experts: int) -> int:
        """Count weights that matrices have, without norms and without the embedding, which is only looked up.

        Parameters
        ----------
        experts : int
            Experts that count in each block: `experts` for what is stored, `active` for what a token uses.

        Returns
        -------
        int
            Weights.
        """
        attention = 2 * self.width * self.head_dim * (self.heads + self.kv_heads)
        feed = (3 if self.gated else 2) * self.width * self.ffn * experts
        return self.blocks * (attention + feed) + self.vocab * self.width


SHAPES: dict[str, Sizes] = {
    "llama-2-7b": Sizes(32, 4096, 11008, 32, 32, 128, 32000, 4096),
    "llama-2-13b": Sizes(40, 5120, 13824, 40, 40, 128, 32000, 4096),
    "llama-2-70b": Sizes(80, 8192, 28672, 64, 8, 128, 32000, 4096),
    "llama-3-8b": Sizes(32, 4096, 14336, 32, 8, 128, 128256, 8192),
    "llama-3-70b": Sizes(80, 8192, 28672, 64, 8, 128, 128256, 8192),
    "mistral-7b": Sizes(32, 4096, 14336, 32, 8, 128, 32000, 32768),
    "mixtral-8x7b": Sizes(32, 4096, 14336, 32, 8, 128, 32000, 32768, 8, 2),
}  #: by the name that `--shape` takes
