"""Forward pass of a BERT-like encoder, layer by layer; a scheme's prepared model computes each part.

Post-norm blocks: x = norm(x + attention(x)), then x = norm(x + down(gelu(up(x)))) [D-arith-15].
Several texts form one (tokens, width) array; they interact only where a scheme calibrates on all of them.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from refemu.arith import dot
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.models.backend import Backend, on_threads
from refemu.models.encoder.config import EncoderConfig
from refemu.models.runtime import heads, require_tokens
from refemu.models.taps import Tap, Watch


class PreparedEncoder(Protocol):
    """An encoder under a scheme, ready to run. Hidden states are float32 (tokens, width)."""

    name: str  #: name of the model
    sha256: str  #: digest of its weights
    model: EncoderConfig
    config: Any  #: configuration of the scheme
    backend: Backend

    def embeddings(self, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Sum of the embeddings of word, position and token type 0, (tokens, width)."""

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """The norm `name` ("embed_norm", "blk.3.attn_norm", "blk.3.ffn_norm") of every token."""

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """Linear layers `names` of a block (one of `encoder_config.LINEARS`), biases included, in that order."""

    def attention(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Attention within one text: (tokens, heads, head_dim) each to (tokens, heads * head_dim)."""

    def activation(self, x: np.ndarray) -> np.ndarray:
        """GELU."""

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The residual addition."""


def states(parts: PreparedEncoder, texts: Sequence[np.ndarray], watch: Watch) -> Iterator[np.ndarray]:
    """Yield hidden states (tokens of all texts, width) after the embeddings, then after each block."""
    positions = [np.arange(len(text)) for text in texts]
    ends = np.cumsum([0, *(len(text) for text in texts)]).tolist()
    spans = [slice(first, end) for first, end in pairwise(ends)]
    x = parts.norm("embed_norm", parts.embeddings(np.concatenate(texts), np.concatenate(positions)))
    yield x
    for layer in range(parts.model.blocks):
        x = parts.norm(f"blk.{layer}.attn_norm", parts.add(x, attention(parts, layer, x, spans, watch)))
        x = parts.norm(f"blk.{layer}.ffn_norm", parts.add(x, feed_forward(parts, layer, x, watch)))
        yield x


def attention(parts: PreparedEncoder, layer: int, x: np.ndarray, spans: Sequence[slice], watch: Watch) -> np.ndarray:
    """The attention half of a block, without the residual addition; a token sees the tokens of its own text."""
    q, k, v = (heads(parts, y) for y in parts.linear(layer, ("q", "k", "v"), x, watch))
    mixed = [parts.attention(q[span], k[span], v[span]) for span in spans]
    return parts.linear(layer, ("o",), np.concatenate(mixed), watch)[0]


def feed_forward(parts: PreparedEncoder, layer: int, x: np.ndarray, watch: Watch) -> np.ndarray:
    """The feed-forward half of a block, without the residual addition."""
    up = parts.linear(layer, ("up",), x, watch)[0]
    return parts.linear(layer, ("down",), parts.activation(up), watch)[0]


def encode(parts: PreparedEncoder, texts: Sequence[Sequence[int] | np.ndarray], taps: Tap | None = None) -> np.ndarray:
    """Hidden states after the last block, float32 (tokens of all texts, width).

    texts: token ids of each text, at least one, at most as many as the context holds. taps: as for `models.run`.
    """
    if len(texts) == 0:
        raise Refused(f"{parts.name}: at least one text is needed, got none")
    tokens = [require_tokens(text, parts) for text in texts]
    # an fp16 overflow is a result: infinity, then NaN
    with on_threads(parts.backend), np.errstate(over="ignore", invalid="ignore"):
        for hidden in states(parts, tokens, Watch(taps)):
            last = hidden
    return last


def pool(hidden: np.ndarray) -> np.ndarray:
    """The embedding of a text: mean of its hidden states over the tokens, divided by its L2 norm.

    hidden: float32 (tokens, width), finite. Both sums are float32 in ascending order; the mean, the root and the
    quotient are each rounded. Returns float32 (width,). Raises Refused for a mean of 0, which has no direction.
    """
    if not np.isfinite(hidden).all():
        raise Refused("embedding: hidden states must be finite, got infinity or NaN")
    columns = np.ascontiguousarray(hidden.T)
    mean = dot.total32(columns, order=Sequential()) / np.float32(len(hidden))
    length = np.sqrt(dot.total32(mean * mean, order=Sequential()))
    if length == 0:
        raise Refused("embedding: the mean of the hidden states is 0 and has no direction")
    return mean / length
