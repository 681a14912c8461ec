"""The units of the cache: offsets of K, groups of V, widths of tokens. [harmonia §III-B, §III-C, §IV-A]"""

from typing import Any

from refemu.draw.svg import MARGIN, WIDTH, Drawing
from refemu.draw.values import half, listed
from refemu.units.ports import Ports

CHANNELS, TOKENS = 32, 32  #: most channels of K shown; tokens of a group of V
HIGH, NAME = 16, 44  #: height of a row; width of its name
OFFSETS = {"hot": "chosen", "plain": "not chosen", "mantissa": "put out", "empty": "0"}
GROUPS = {"exponent": "exponent", "mantissa": "code", "hot": "row that came last", "score": "final", "empty": "missing"}


def offsets(ports: Ports, state: Any) -> str:
    """Draw the K-offset generator after an event: peak, choice and offset of every channel, and what is put out.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of k_offset.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §III-C, §IV-A]
    """
    count = min(len(state.peak), CHANNELS)
    peaks = listed([half(word) for word in state.peak], 16)
    drawing = Drawing(f"K offsets after event {state.index}: {state.event}", f"peaks of the channels: {peaks}")
    full = f", the first {count} of {len(state.peak)} channels" if count < len(state.peak) else ""
    drawing.heading(f"event {state.index}: {state.event}{full}")
    note = f"{state.written} tokens written, {state.read} put out, {state.chosen} channels chosen"
    drawing.note(note + ("; frozen" if state.frozen else ""), "small faint")
    wide = (WIDTH - 2 * MARGIN - NAME) / 3
    top = drawing.height + 18
    for place, name in enumerate(("peak of the window", "offset", "key less offset")):
        drawing.text(MARGIN + NAME + (place + 0.5) * wide, top - 4, name, "small faint", "middle")
    for channel in range(count):
        y = top + channel * HIGH
        drawing.text(MARGIN, y + 12, str(channel), "small faint")
        peak = ("-" if state.negative[channel] else "") + half(state.peak[channel])
        chosen = "hot" if state.selected[channel] else "plain"
        out = "mantissa" if state.out_valid else "empty"
        cells = ((peak, chosen), (half(state.offset[channel]), chosen), (half(state.k_out[channel]), out))
        for place, ((text, kind), name) in enumerate(zip(cells, ("peak", "offset", "key"), strict=True)):
            about = f"{name} of channel {channel}: {text}"
            drawing.cell(MARGIN + NAME + place * wide, y, wide - 2, HIGH - 2, text, kind, about)
    drawing.legend(OFFSETS)
    return drawing.svg()


def groups(ports: Ports, state: Any) -> str:
    """Draw the grouper of V after an event: codes of the tokens of the open group, channel by channel.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of v_grouper.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §III-B, §III-D]
    """
    channels = len(state.exponent)
    shown = min(channels, 8)
    codes = [("-" if sign else "") + str(code) for sign, code in zip(state.sign, state.mantissa, strict=True)]
    text = f"{state.count} tokens of the group, exponents {listed(state.exponent, 16)}; {listed(codes, 16)}"
    drawing = Drawing(f"groups of V after event {state.index}: {state.event}", text)
    full = f", the first {shown} of {channels} channels" if shown < channels else ""
    drawing.heading(f"event {state.index}: {state.event}, {state.count} of {TOKENS} tokens{full}")
    top, wide = drawing.height + 6, (WIDTH - 2 * MARGIN - NAME - 20) / shown
    left = MARGIN + NAME + 20
    drawing.text(MARGIN, top + 12, "exponent", "small faint")
    for channel in range(shown):
        word = str(state.exponent[channel])
        about = f"exponent of channel {channel}: {word}"
        drawing.cell(left + channel * wide, top, wide - 2, HIGH - 2, word, "exponent", about)
    for token in range(TOKENS):
        y = top + (token + 1) * HIGH
        drawing.text(MARGIN, y + 12, f"token {token}", "small faint")
        for channel in range(shown):
            there, last = token < state.count, token == state.count - 1
            kind = "score" if state.commit else "hot" if last else "mantissa" if there else "empty"
            code = codes[token * channels + channel] if there else ""
            about = f"token {token}, channel {channel}: {code or 'missing'}"
            drawing.cell(left + channel * wide, y, wide - 2, HIGH - 2, code, kind, about)
    drawing.legend(GROUPS)
    return drawing.svg()


def widths(ports: Ports, state: Any) -> str:
    """Draw the bit allocator after an event: how many tokens have low bits, and which one falls.

    Parameters
    ----------
    ports : Ports
        Ports of the configuration.
    state : State
        State of bit_allocator.

    Returns
    -------
    str
        SVG.

    References
    ----------
    [harmonia §III-B, Fig. 7]
    """
    rows = (
        ("K, tokens", state.tokens, state.low_tokens, state.demote_k, f"token {state.k_token}"),
        ("V, groups", -(-state.tokens // TOKENS), state.low_groups, state.demote_v, f"group {state.v_group}"),
    )
    about = "; ".join(f"{name}: {low} of {total} have low bits" for name, total, low, *_ in rows)
    drawing = Drawing(f"widths after event {state.index}: {state.event}", f"{state.tokens} tokens; {about}")
    drawing.heading(f"event {state.index}: {state.event}, {state.tokens} tokens")
    wide = WIDTH - 2 * MARGIN
    for name, total, low, falls, what in rows:
        drawing.note(f"{name}: {low} with low bits, {total - low} with high bits", "small")
        y = drawing.height + 4
        share = wide * low / total if total else 0.0
        parts = (("low", 0.0, share, low), ("high", share, wide - share, total - low))
        for kind, left, size, number in parts:
            if number:
                drawing.box(MARGIN + left, y, size, 20, kind, f"{name} with {kind} bits: {number}")
        text, kind = (f"{what} falls", "hot") if falls else ("none falls", "empty")
        drawing.cell(MARGIN, y + 24, wide, 18, text, kind, f"{name[0]}: {text}")
    drawing.legend({"low": "low bits", "high": "high bits", "hot": "falls in this event"})
    return drawing.svg()
