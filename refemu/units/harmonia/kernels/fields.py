"""Packed codes of a row as signed integers. Read formats/harmonia/bfp_fields.py first. [harmonia §III-B]"""

import numpy as np

from refemu.arith.jit import callee

#: the bits of a byte as the bytes of a word, first bit lowest
SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view("<u8").reshape(-1)


@callee
def packed_rows(first, last, shared, packed, fields, out):
    """out (tokens, D) float32 <- head `shared` of packed tokens `first` to `last`, as signed integers.

    packed: bytes (tokens, KV heads, ...) of signs and upper bits, bytes of lower bits of the tokens but those from
    fallen[0] to fallen[1], fallen. fields: (width, first byte, bytes, weight) of the bits of either.
    """
    every, rest, fallen = packed
    words = np.empty((out.shape[1] + 7) // 8, np.uint64)
    row, signs = np.empty(8 * words.size, np.int32), words.view(np.uint8)
    for token in range(first, last):
        for c in range(words.size):
            words[c] = SPREAD[every[token, shared, c]]
        row[:] = 0
        _add_fields(every, token, shared, fields[0], row)
        if token < fallen[0]:
            _add_fields(rest, token, shared, fields[1], row)
        elif token >= fallen[1]:
            _add_fields(rest, token - (fallen[1] - fallen[0]), shared, fields[1], row)
        to = out[token - first]
        for d in range(to.size):
            to[d] = np.float32(row[d] * np.int32(np.int32(1) - np.int32(2) * np.int32(signs[d])))


@callee
def _add_fields(packed, token, shared, fields, row):
    """row |= the codes of these fields of a token and a head."""
    for f in range(fields.shape[0]):
        width, first, count, weight = fields[f, 0], fields[f, 1], fields[f, 2], np.int32(fields[f, 3])
        if width == 4:
            codes, low, high = packed[token, shared, first : first + count], row[:count], row[count : 2 * count]
            for c in range(count):
                low[c] |= np.int32(np.int32(np.int32(codes[c]) & np.int32(15)) << weight)
            for c in range(count):
                high[c] |= np.int32(np.int32(np.int32(codes[c]) >> np.int32(4)) << weight)
        elif width == 1:
            for c in range(count):
                bits = SPREAD[packed[token, shared, first + c]]
                for b in range(8):
                    row[8 * c + b] |= np.int32(np.int32(np.int64(bits >> np.uint64(8 * b)) & 1) << weight)
        else:
            mask = np.int32((1 << width) - 1)
            for place in range(8 // width):
                down = np.int32(place * width)
                for c in range(count):
                    code = np.int32(packed[token, shared, first + c])
                    row[place * count + c] |= np.int32(np.int32(np.int32(code >> down) & mask) << weight)
