"""Paged attention: pages in the order in which they are read, logits and probabilities of every token. [leankv §6.2]"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import half, listed, single
from refemu.units.ports import Ports

MOST = 48  #: tokens whose bars are drawn
HEADS = 4  #: query heads that are drawn
BAR = 52  #: height of the highest bar
ACROSS = 16  #: cells of the entry in a row


class Sizes(NamedTuple):
    """Sizes of a configuration, from its ports."""

    cells: int
    high: int  #: tokens of a high page
    low: int
    heads: int
    tokens: int  #: lanes of a head
    features: int


def attention(ports: Ports, state: Any) -> str:
    """Draw paged attention after an event: pages, then logits or probabilities of the tokens, head by head.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of paged_attention.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [leankv §6.2]
    """
    sizes = _sizes(ports)
    count = min(state.n_high + state.n_low, sizes.tokens)
    drawing = Drawing(f"paged attention after {state.event}", _described(state, sizes, count))
    where = f", page {state.page} of chunk {state.chunk}" if state.event in ("key_page", "value_page") else ""
    drawing.heading(f"{state.event}{where}: {state.n_high} high + {state.n_low} low tokens")
    _pages(drawing, state, sizes)
    name, words = _stage(state)
    for head in range(min(sizes.heads, HEADS)):
        _bars(drawing, f"head {head}: {name}", words[head * sizes.tokens : head * sizes.tokens + count], state.n_high)
    if sizes.heads > HEADS:
        drawing.note(f"and {sizes.heads - HEADS} more heads", "small faint")
    if state.event in ("combine", "score"):
        for head in range(min(sizes.heads, HEADS)):
            out = state.out[head * sizes.features : head * sizes.features + 6]
            drawing.note(f"out {head}: {' '.join(half(word) for word in out)} …", "small")
    drawing.legend({"high": "high precision", "low": "low precision", "hot": "page just read", "empty": "no page"})
    return drawing.svg()


def _sizes(ports: Ports) -> Sizes:
    by_name = {port.name: port for port in ports.all}
    cells, tokens = by_name["entry"].count, by_name["score"].count
    heads = by_name["p"].count // tokens
    high, low = ((by_name[name].most or 0) // cells for name in ("n_high", "n_low"))
    return Sizes(cells, high, low, heads, tokens, by_name["q"].count // heads)


def _pages(drawing: Drawing, state: Any, sizes: Sizes) -> None:
    """Cells of the table entry; the page that the event read is marked while there is one chunk."""
    entry = state.entry
    high = -(-state.n_high // sizes.high)
    low = -(-state.n_low // sizes.low) if sizes.low else 0
    order = [*range(high), *(sizes.cells - 1 - place for place in range(low))]
    reading = state.event in ("key_page", "value_page") and state.chunk == 0 and 0 < state.page <= len(order)
    hot = order[state.page - 1] if reading else -1
    width = min(90.0, (WIDTH - 2 * MARGIN) / min(sizes.cells, ACROSS))
    y = drawing.height + 5
    for cell, page in enumerate(entry):
        kind = "high" if cell < high else "low" if cell >= sizes.cells - low else "empty"
        text = f"page {page}" if kind != "empty" else "·"
        x, top = MARGIN + cell % ACROSS * width, y + cell // ACROSS * 26
        drawing.cell(x, top, width - 3, 23, text, "hot" if cell == hot else kind, f"cell {cell}: {text}")


def _stage(state: Any) -> tuple[str, Sequence[int]]:
    """Values of the bars: logits until the softmax, then probabilities."""
    if state.event in ("reset", "key_page"):
        return "logits", state.logits
    return ("probabilities of a chunk", state.chances) if state.event != "score" else ("p", state.p)


def _bars(drawing: Drawing, name: str, words: Sequence[int], n_high: int) -> None:
    """A bar for each token, up where its value is positive, with the least and the largest."""
    values = np.array(words, np.uint32).view(np.float32).astype(np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    some = values[:MOST]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    drawing.note(f"{name}, {low:.4g} to {high:.4g}", "small")
    top = max(high, 0.0)
    span = max(top - min(low, 0.0), 1e-30)
    y = drawing.height + 4
    zero = y + BAR * top / span
    width = (WIDTH - 2 * MARGIN) / max(len(some), 1)
    for token, value in enumerate(some.tolist()):
        tall = max(abs(value) / span * BAR, 0.6)
        kind = "high" if token < n_high else "low"
        about = f"token {token}: {value:.6g}"
        drawing.box(MARGIN + token * width, zero - tall if value >= 0 else zero, width - 1.5, tall, kind, about)
    drawing.line(MARGIN, zero, WIDTH - MARGIN, zero)
    drawing.height = y + BAR + 4
    if values.size > MOST:
        drawing.note(f"the first {MOST} of {values.size} tokens", "small faint")


def _described(state: Any, sizes: Sizes, count: int) -> str:
    name, words = _stage(state)
    texts = [
        f"head {head}, {name}: {listed([single(word) for word in words[head * sizes.tokens :][:count]])}"
        for head in range(min(sizes.heads, HEADS))
    ]
    return f"{state.n_high} tokens in high pages, {state.n_low} in low pages. {'; '.join(texts)}"
