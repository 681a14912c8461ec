"""Fields of packed 32-bit words, the least significant word first: a field may cross words."""

import numpy as np

from refemu.arith.jit import kernel


@kernel
def unpack(words, lsb, bits, signed, values):
    """Write every field of every row, signed ones extended; a field of 64 bits is a pattern.

    words: uint32 (rows, words). lsb, bits, signed: int64 (fields,). values: int64 (rows, fields), which is filled.
    """
    ones = np.int64(-1)
    for row in range(words.shape[0]):
        for field in range(lsb.shape[0]):
            word, shift, width = lsb[field] >> 5, lsb[field] & 31, bits[field]
            code = np.int64(words[row, word]) >> shift
            have = 32 - shift
            while have < width:
                word += 1
                code |= np.int64(words[row, word]) << have
                have += 32
            if width < 64:
                code &= ~(ones << width)
                code |= -((code >> (width - 1)) & signed[field]) << width
            values[row, field] = code


@kernel
def pack(values, lsb, bits, words):
    """Put the low bits of every value into its field; bits outside of fields are unchanged.

    values: int64 (rows, fields). lsb, bits: int64 (fields,). words: uint32 (rows, words), 0 in all fields.
    """
    ones = np.int64(-1)
    low = np.int64(0xFFFFFFFF)
    for row in range(values.shape[0]):
        for field in range(lsb.shape[0]):
            word, shift, width = lsb[field] >> 5, lsb[field] & 31, bits[field]
            code = values[row, field]
            if width < 64:
                code &= ~(ones << width)
            words[row, word] = (np.int64(words[row, word]) | (code << shift)) & low
            put = 32 - shift
            while put < width:
                word += 1
                rest = (code >> put) & ~(ones << (width - put))
                words[row, word] = (np.int64(words[row, word]) | rest) & low
                put += 32
