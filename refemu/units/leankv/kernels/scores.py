"""Scores of stored tokens: sums in the images of pages, and their shares. [leankv §4, §6.2]"""

import numpy as np

from refemu.arith.jit import kernel
from refemu.arith.kernels.scalars import U, canonical
from refemu.units.leankv.kernels.pages import P_POSITION, P_SCORE, P_TOKENS


@kernel
def paged_scores(images, cells, lengths, layout, newest, p, mean, first, last):
    """Scores of tokens of heads `first` to `last` in `images` += the largest or the mean p, except at newest[u]."""
    for u in range(first, last):
        at = np.int64(0)
        for s in range(2):
            tokens = layout[s, P_TOKENS]
            for index in range(lengths[u, s]):
                page = cells[u, index // tokens]
                if s == 1:
                    page = cells[u, cells.shape[1] - 1 - index // tokens]
                image, word = images[page], layout[s, P_SCORE] + 2 * (index % tokens)
                where = layout[s, P_POSITION] + 2 * (index % tokens)
                position = np.int64(image[where]) | (np.int64(image[where + 1]) << 16)
                if position != newest[u]:
                    joined = _joined(p[u, :, at + index], mean)
                    old = U(U(image[word]) | U(U(image[word + 1]) << U(16))).view(np.float32)
                    bits = np.float32(canonical(np.float32(old + joined))).view(np.uint32)
                    image[word], image[word + 1] = np.uint16(bits & U(0xFFFF)), np.uint16(bits >> U(16))
            at += lengths[u, s]


@kernel
def _joined(p, mean):
    """The largest p of the heads, from 0 on; or their sum in turn, divided by their number."""
    joined = np.float32(0)
    for g in range(p.size):
        if mean:
            joined = np.float32(joined + p[g])
        elif p[g] > joined or p[g] != p[g]:
            joined = p[g]
    return np.float32(joined / np.float32(p.size)) if mean else joined


@kernel
def mean_shares(score, position, stored, n, prompt, counting, share):
    """share (U, slots) <- means of the scores of stored tokens over their sum in turn; returns the divisions it took.

    counting: last queries of a prompt that count, a large number for all; whether a token's own query counts; whether
    `position` is n minus the count.
    """
    divisions = np.int64(0)
    for u in range(share.shape[0]):
        total, row, start = np.float32(0), share[u], prompt[u] - min(prompt[u], counting[0])
        for i in range(stored[u]):
            at = np.int64(position[u, i])
            first = at + np.int64(1) - counting[1]
            if counting[2] != 0:
                first = at
            elif at < prompt[u]:
                first = max(first, start)
            count = n[u] - first
            row[i] = np.float32(0)
            if count > 0:
                row[i] = np.float32(score[u, i] / np.float32(count))
            divisions += np.int64(count != 0)
            total = np.float32(total + row[i])
        if total != 0:
            for i in range(stored[u]):
                row[i] = np.float32(row[i] / total)
            divisions += stored[u]
    return divisions
