"""Keys and values from images of pages, dequantized; scores and shares of their tokens. [leankv §5, §6.2]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.scalars import U, canonical, widen

# Columns of `layout` (2, 13), by section: the layout of its pages; bases are words of an image.
P_TOKENS, P_K_BITS, P_V_BITS, P_K_META, P_V_META, P_K_GROUPS, P_V_GROUPS = range(7)
P_K_STEP, P_V_STEP, P_V_VEC, P_SIGN, P_SCORE, P_POSITION = range(7, 13)


@callee
def page_keys(image, layout, packs, count, words, meta, keys):
    """keys[f, t] <- feature f of the key in slot t, t below `count`."""
    bits = layout[P_K_BITS]
    per = 16 // bits
    if bits == 16:
        for f in range(keys.shape[0]):
            for t in range(count):
                keys[f, t] = widen(image[packs[f] + t * layout[P_K_STEP]])
        return
    groups = layout[P_K_GROUPS]
    size = keys.shape[0] // per // groups
    for group in range(groups):
        scale, offset = meta[0], meta[1]
        for t in range(count):
            at = layout[P_K_META] + 2 * (t * groups + group)
            scale[t] = widen(image[at])
            offset[t] = np.float32(np.float32(layout[P_SIGN]) * widen(image[at + 1]))
        for i in range(group * size, (group + 1) * size):
            for t in range(count):
                words[t] = U(image[packs[i] + t * layout[P_K_STEP]])
            for e in range(per):
                row, shift, mask = keys[i * per + e], U(e * bits), U((1 << bits) - 1)
                for t in range(count):
                    code = np.float32(np.int32(U(words[t] >> U(shift & U(15))) & mask))
                    row[t] = np.float32(np.float32(scale[t] * code) + offset[t])


@callee
def page_values(image, layout, packs, slots, words, values):
    """values[k] <- the value in slots[k], feature pack * per + e at e * packs + pack: so packs vectorise."""
    bits = layout[P_V_BITS]
    per, groups = 16 // bits, layout[P_V_GROUPS]
    count = values.shape[1] // per
    for k in range(slots.size):
        t, row = slots[k], values[k]
        place = t // layout[P_V_VEC] * layout[P_V_STEP] + t % layout[P_V_VEC]
        if bits == 16:
            for i in range(count):
                row[i] = widen(image[packs[i] + place])
            continue
        for i in range(count):
            words[i] = U(image[packs[i] + place])
        for group in range(groups):
            at = layout[P_V_META] + 2 * (t * groups + group)
            scale, offset = widen(image[at]), np.float32(np.float32(layout[P_SIGN]) * widen(image[at + 1]))
            begin, size = group * (count // groups), count // groups
            source = words[begin : begin + size]
            for e in range(per):
                shift, mask = U(e * bits), U((1 << bits) - 1)
                part = row[e * count + begin : e * count + begin + size]
                for i in range(size):
                    code = np.float32(np.int32(U(source[i] >> U(shift & U(15))) & mask))
                    part[i] = np.float32(np.float32(scale * code) + offset)


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
