"""Several sequences at once: linear layers read their weights once for all of them.

The bits are those of each sequence alone, since every part of a scheme works token by token or on one cache.
"""

from collections.abc import Sequence

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import runtime
from refemu.models.backend import on_threads
from refemu.models.runtime import Session
from refemu.models.taps import Watch


def append_all(
    sessions: Sequence[Session], ids: Sequence[Sequence[int] | np.ndarray], last: bool = False
) -> list[np.ndarray]:
    """Append tokens to several sessions of one prepared model, and compute the logits after each.

    last: compute only the last row of each. The result is that of `append` for each session; a call that raises changes
    nothing. Raises Refused as `append`, for other numbers of lists than sessions, and for sessions of several models.
    """
    prepared = sessions[0].prepared
    if len(sessions) != len(ids) or any(session.prepared is not prepared for session in sessions):
        raise Refused(
            f"append_all: needs a list for each session of one prepared model, got {len(ids)} for {len(sessions)}"
        )
    tokens = [runtime.require_tokens(each, prepared, len(session)) for each, session in zip(ids, sessions, strict=True)]
    marks = [session.mark() for session in sessions]
    try:
        if len(sessions) == 1 or any(
            len(session.caches.passes(each)) > 1 for session, each in zip(sessions, tokens, strict=True)
        ):
            return [session.append(each, last) for session, each in zip(sessions, tokens, strict=True)]
        with on_threads(prepared.backend), np.errstate(over="ignore", invalid="ignore"):
            return _together(sessions, tokens, last)
    except BaseException:
        for session, mark in zip(sessions, marks, strict=True):
            session.rewind(mark)
        raise


def _together(sessions: Sequence[Session], tokens: Sequence[np.ndarray], last: bool) -> list[np.ndarray]:
    parts, watch = sessions[0].prepared, Watch()
    starts = [len(session) for session in sessions]
    ends = np.cumsum([len(each) for each in tokens]).tolist()
    rows = [slice(end - len(each), end) for end, each in zip(ends, tokens, strict=True)]
    for session, start in zip(sessions, starts, strict=True):
        session.watch.first_token = start
    x = np.concatenate([runtime.embeddings(parts, each, start) for each, start in zip(tokens, starts, strict=True)])
    for layer in range(parts.model.blocks):
        normed = parts.norm(f"blk.{layer}.attn_norm", x)
        projected = parts.linear(layer, ("q", "k", "v"), normed, watch)
        context = []
        for session, start, part in zip(sessions, starts, rows, strict=True):
            q, k, v = runtime.placed(parts, layer, [y[part] for y in projected], start)
            cache = session.caches[layer]
            cache.append(k, v)
            context.append(parts.attention(layer, q, cache, session.watch))
        x = parts.add(x, runtime.attended(parts, layer, np.concatenate(context), watch))
        x = parts.add(x, runtime.feed_forward(parts, layer, x, watch))
    x = parts.norm("norm", x)
    kept = [x[part][-1:] if last else x[part] for part in rows]
    logits = runtime.logits(parts, np.concatenate(kept), watch)
    return np.split(logits, np.cumsum([len(each) for each in kept])[:-1])
