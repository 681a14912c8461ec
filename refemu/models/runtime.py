"""Forward pass of a decoder, layer by layer; a scheme's `Prepared` computes each part.

Pre-norm blocks of grouped-query attention and of a feed-forward half [D-arith-15]: Llama-like with rotary positions and
SwiGLU, or with the parts of other families (docs/fp16-scheme.md). Hidden states are (tokens, width) float32
arrays; the scheme decides which values they hold. Every part works token by token or on the cache, so a token's bits
are the same in a prompt and in a decode step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refemu.arguments import checked
from refemu.arith.attention import experts
from refemu.arith.checks import Refused, require_range
from refemu.models.backend import on_threads
from refemu.models.cache import Caches
from refemu.models.encoder.config import EncoderConfig
from refemu.models.schemes.scheme import Prepared
from refemu.models.taps import Tap, Watch


def decoder(parts: Prepared, ids: np.ndarray, caches: Sequence[Any], watch: Watch) -> np.ndarray:
    """Output of the last norm (tokens, width) for `ids`; their keys and values are appended to `caches`."""
    x = embeddings(parts, ids, len(caches[0]))
    for layer, cache in enumerate(caches):
        x = parts.add(x, attention(parts, layer, x, cache, watch))
        x = parts.add(x, feed_forward(parts, layer, x, watch))
    return parts.norm("norm", x)


def logits(parts: Any, x: np.ndarray, watch: Watch) -> np.ndarray:
    """Logits (tokens, vocabulary) from the output of the last norm, with the model's soft cap (D-arith-27)."""
    y, cap = parts.head(x, watch), parts.model.logit_cap
    capped: np.ndarray = parts.backend.softcap(y, cap) if cap else y
    return capped


def embeddings(parts: Prepared, ids: np.ndarray, start: int) -> np.ndarray:
    """Embeddings of `ids`, the first at position `start`; learned positions are added (D-arith-16)."""
    x = parts.embed(ids)
    if parts.model.positions == "learned":
        x = parts.add(x, parts.position(start, len(ids)))
    return parts.norm("embed_norm", x) if parts.model.embed_norm else x


def attention(parts: Prepared, layer: int, x: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
    """The attention half of a block, without the residual addition."""
    q, k, v = projections(parts, layer, x, len(cache), watch)
    cache.append(k, v)
    return attended(parts, layer, parts.attention(layer, q, cache, watch), watch)


def attended(parts: Any, layer: int, context: np.ndarray, watch: Watch) -> np.ndarray:
    """The attention half of a block after the attention itself."""
    y = parts.linear(layer, ("o",), context, watch)[0]
    return post_norm(parts, f"blk.{layer}.attn_post_norm", y)


def post_norm(parts: Any, name: str, y: np.ndarray) -> np.ndarray:
    """The norm after a block half, if the model has one."""
    normed: np.ndarray = parts.norm(name, y) if parts.model.post_norms else y
    return normed


def projections(parts: Any, layer: int, x: np.ndarray, start: int, watch: Watch) -> Sequence[np.ndarray]:
    """Queries, keys and values of a block, (tokens, heads, head_dim); the first token is at position `start`."""
    x = parts.norm(f"blk.{layer}.attn_norm", x)
    return placed(parts, layer, parts.linear(layer, ("q", "k", "v"), x, watch), start)


def placed(parts: Prepared, layer: int, projected: Sequence[np.ndarray], start: int) -> Sequence[np.ndarray]:
    """Outputs of q, k and v of one sequence as heads, normed and rotated as the model needs."""
    q, k, v = (heads(parts, y) for y in projected)
    if parts.model.qk_norm:
        q, k = parts.norm(f"blk.{layer}.q_norm", q), parts.norm(f"blk.{layer}.k_norm", k)
    if parts.model.positions == "rotary":
        q, k = parts.rotate(q, start), parts.rotate(k, start)
    return q, k, v


def feed_forward(parts: Prepared, layer: int, x: np.ndarray, watch: Watch) -> np.ndarray:
    """The feed-forward half of a block, without the residual addition."""
    x = parts.norm(f"blk.{layer}.ffn_norm", x)
    if parts.model.experts:
        return post_norm(parts, f"blk.{layer}.ffn_post_norm", mixture(parts, layer, x, watch))
    if parts.model.gated:
        gate, up = parts.linear(layer, ("gate", "up"), x, watch)
        inner = parts.activation(layer, gate, up, watch)
    else:
        inner = parts.activate(layer, parts.linear(layer, ("up",), x, watch)[0], watch)
    y = parts.linear(layer, ("down",), inner, watch)[0]
    return post_norm(parts, f"blk.{layer}.ffn_post_norm", y)


def mixture(parts: Prepared, layer: int, x: np.ndarray, watch: Watch) -> np.ndarray:
    """The weighted outputs of the experts of each token, added in ascending order of the experts (D-arith-33)."""
    model, round16 = parts.model, parts.backend.round16
    router = parts.linear(layer, ("router",), x, watch)[0]
    chosen, weights = experts.route(router, model.experts_used, model.experts_normalized)
    y = np.zeros_like(x)
    for number in range(model.experts):
        tokens, places = np.nonzero(chosen == number)
        if not tokens.size:
            continue
        name = f"expert.{number}."
        gate, up = parts.linear(layer, (name + "gate", name + "up"), x[tokens], watch)
        inner = parts.activation(layer, gate, up, watch)
        out = parts.linear(layer, (name + "down",), inner, watch)[0]
        y[tokens] = round16(y[tokens] + round16(out * weights[tokens, places][:, None]))
    return y


def heads(parts: Any, x: np.ndarray) -> np.ndarray:
    """(tokens, heads * head_dim) seen as (tokens, heads, head_dim)."""
    return x.reshape(len(x), -1, parts.model.head_dim)


@dataclass(frozen=True)
class Mark:
    """A position in a session, for `Session.rewind`."""

    tokens: int
    counters: tuple[tuple[str, int], ...]
    held: Any = None  #: state that the caches need to rewind


class Session:
    """A growing sequence of tokens: the prepared model, its KV caches and its counters.

    `append` returns the same bits however the sequence is split into calls, unless the scheme treats a prompt (the
    first call) differently from later tokens. A call that raises changes nothing.
    """

    def __init__(self, prepared: Prepared, taps: Tap | None = None) -> None:
        """Open an empty sequence.

        Parameters
        ----------
        prepared : Prepared
            Model under a scheme.
        taps : callable, optional
            Called as taps(layer, unit, case) with the values at the ports of the scheme's units.

        Raises
        ------
        Refused
            The model is an encoder, which reads a text at once.
        """
        if isinstance(prepared.model, EncoderConfig):
            raise Refused(f"{prepared.name} is an encoder; use models.encode")
        self.prepared = prepared
        self.caches: Caches = prepared.caches()  #: of all blocks
        self.watch: Watch = Watch(taps)  #: taps and counters

    def __len__(self) -> int:
        """Tokens so far."""
        return len(self.caches[0])

    def __repr__(self) -> str:
        return f"Session({self.prepared!r}, {len(self)} tokens)"

    @property
    def counters(self) -> dict[str, int]:
        """Counters of the scheme so far, by name."""
        return dict(sorted(self.watch.counters.items()))

    @property
    def storage_bits(self) -> int:
        """Size of all keys and values in bits, with the scales needed to read them."""
        return int(self.caches.storage_bits())

    def append(self, ids: Sequence[int] | np.ndarray, last: bool = False) -> np.ndarray:
        """Append tokens and compute the logits after each.

        Parameters
        ----------
        ids : sequence of int or ndarray
            At least one id below the vocabulary, at most as many as the context holds.
        last : bool
            Compute only the last row.

        Returns
        -------
        ndarray of float32 (tokens or 1, vocabulary)
            Logits.

        Raises
        ------
        Refused
            The list is empty, an id outside the vocabulary, or the context too short.
        """
        tokens = require_tokens(ids, self.prepared, len(self))
        mark = self.mark()
        try:
            # an fp16 overflow is a result: infinity, then NaN
            with on_threads(self.prepared.backend), np.errstate(over="ignore", invalid="ignore"):
                x = np.concatenate([self._pass(part) for part in self.caches.passes(tokens)])
                return logits(self.prepared, x[-1:] if last else x, self.watch)
        except BaseException:
            self.rewind(mark)
            raise

    def _pass(self, ids: np.ndarray) -> np.ndarray:
        self.watch.first_token = len(self)
        return decoder(self.prepared, ids, self.caches, self.watch)

    def mark(self) -> Mark:
        """Mark the current position, for `rewind`.

        Returns
        -------
        Mark
            Current position.
        """
        return Mark(len(self), tuple(self.counters.items()), self.caches.mark())

    def rewind(self, mark: Mark) -> None:
        """Drop every token after a mark.

        Parameters
        ----------
        mark : Mark
            Result of `mark`.
        """
        self.watch.counters = dict(mark.counters)
        self.caches.rewind(mark.tokens, mark.held)


def require_tokens(ids: Sequence[int] | np.ndarray, prepared: Any, before: int = 0) -> np.ndarray:
    """`ids` as int64 (tokens,); raise Refused if empty, outside the vocabulary, or beyond the context."""
    name, model = prepared.name, prepared.model
    tokens = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    if tokens.ndim != 1 or tokens.size == 0:
        raise Refused(f"{name}: token ids must be a flat list with at least one id, got shape {tokens.shape}")
    require_range(tokens, 0, model.vocab, name, "token id")
    if before + tokens.size > model.context:
        raise Refused(f"{name}: the context holds {model.context} tokens, got {before + tokens.size}")
    return tokens.astype(np.int64)


@checked
def greedy(prepared: Prepared, ids: Sequence[int] | np.ndarray, count: int) -> list[int]:
    """Decode tokens greedily: the highest logit, or the lowest id of equal ones.

    Parameters
    ----------
    prepared : Prepared
        Model under a scheme.
    ids : sequence of int or ndarray
        Tokens to continue.
    count : int
        Tokens to decode, at least 1.

    Returns
    -------
    list of int
        Token ids.

    Raises
    ------
    Refused
        `count` below 1, an id outside the vocabulary, or more tokens than the context holds.
    """
    tokens = require_tokens(ids, prepared)
    if count < 1:
        raise Refused(f"greedy: count must be at least 1, got {count}")
    require_tokens(np.resize(tokens, tokens.size + count - 1), prepared)
    session = Session(prepared)
    chosen = [int(np.argmax(session.append(tokens, last=True)))]
    while len(chosen) < count:
        chosen.append(int(np.argmax(session.append(chosen[-1:]))))
    return chosen
