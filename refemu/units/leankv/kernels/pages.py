"""Keys and values from images of pages, dequantized. [leankv §5, §6.2]"""

import numpy as np

from refemu.arith.jit import callee
from refemu.arith.kernels.scalars import U, widen

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
