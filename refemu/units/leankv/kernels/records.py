"""Records of tokens in pages: encoded from vectors, written, and moved to the low precision. [leankv §4, §6.1]

Everywhere: storage = for high and for low pages, words of slots (slots, record words) and sides (2, 6): for key and
value bits, groups, last zero, multiplies, first word of codes and of metadata. Score and position end a record.
"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels import narrow_all, widen_all
from refemu.arith.kernels.scalars import U, canonical, widen
from refemu.formats.leankv.compiled.affine import INFINITY, encode_groups

S_BITS, S_GROUPS, S_LAST, S_MULTIPLIES, S_CODES, S_META = range(6)  # columns of sides


@kernel
def store(images, places, table, key, value, sides, words):
    """Records of key and value (count, F), with `words` (2, count) of score and position, into places (2, count).

    Returns whether it was done: not with an invalid place or a vector that is not finite.
    """
    for i in range(places.shape[1]):
        if not (0 <= places[0, i] < images.shape[0] and 0 <= places[1, i] < table.shape[0]):
            return False
    records = np.empty((places.shape[1], table.shape[1]), np.uint16)
    if not _encoded(key, sides[0], records) or not _encoded(value, sides[1], records):
        return False
    for i in range(places.shape[1]):
        record, image, where, last = records[i], images[places[0, i]], table[places[1, i]], table.shape[1] - 4
        for w in range(last):
            image[where[w]] = record[w]
        for w in range(2):
            image[where[last + 2 * w]] = np.uint16(words[w, i] & U(0xFFFF))
            image[where[last + 2 * w + 1]] = np.uint16(words[w, i] >> U(16))
    return True


@callee
def _encoded(x, side, records):
    """Words and metadata of vectors x (count, F) into their parts of records; whether all are finite."""
    bits, groups = side[S_BITS], side[S_GROUPS]
    if bits == 16:
        for i in range(x.shape[0]):
            narrow_all(x[i], records[i, side[S_CODES] : side[S_CODES] + x.shape[1]])
        return bool(np.isfinite(x).all())
    size, count = x.shape[1] * bits // 16, 2 * groups
    codes, meta = np.empty(2 * size * x.shape[0], np.uint8), np.empty(count * x.shape[0], np.uint16)
    rows = x.reshape(x.shape[0] * groups, x.shape[1] // groups)
    if encode_groups(rows, bits, side[S_LAST] != 0, side[S_MULTIPLIES] != 0, codes, meta) >= INFINITY:
        return False
    for i in range(x.shape[0]):
        record, code = records[i], codes[2 * size * i :]
        for w in range(size):
            record[side[S_CODES] + w] = np.uint16(code[2 * w]) | np.uint16(np.uint16(code[2 * w + 1]) << np.uint16(8))
        for w in range(count):
            record[side[S_META] + w] = meta[count * i + w]
    return True


@kernel
def put(images, image, slot, storage, section, vectors, score, position, record):
    """One token, vectors (2, F), into a slot of an image; record <- its words. Returns whether it was done."""
    words, place = np.empty((2, 1), np.uint32), np.empty((2, 1), np.int64)
    words[0, 0], words[1, 0], place[0, 0], place[1, 0] = U(score), U(position), image, slot
    table, sides = storage[2 * section], storage[2 * section + 1]
    if not store(images, place, table, vectors[:1], vectors[1:], sides, words):
        return False
    _read(images[image], table[slot], record)
    return True


@callee
def _read(image, where, record):
    """record <- the words of a slot."""
    for w in range(where.size):
        record[w] = image[where[w]]


@kernel
def lower(images, image, slot, to_image, to_slot, storage, features, record):
    """The token of a high slot into a low one; record <- its words there. Returns whether it was done."""
    held, vectors = np.empty(storage[0].shape[1], np.uint16), np.empty((2, features), np.float32)
    _read(images[image], storage[0][slot], held)
    for side in range(2):
        _decoded(held, storage[1][side], vectors[side])
    score, position = _word(held, held.size - 4), _word(held, held.size - 2)
    return put(images, to_image, to_slot, storage, 1, vectors, score, position, record)


@callee
def _word(record, at):
    """Two words of 16 bits as one."""
    return U(record[at]) | U(U(record[at + 1]) << U(16))


@callee
def _decoded(record, side, out):
    """out (F,) <- the vector of one side of a record."""
    if side[S_BITS] == 16:
        widen_all(record[side[S_CODES] : side[S_CODES] + out.size], out)
        return
    bits, size, sign = side[S_BITS], out.size // side[S_GROUPS], np.float32(2 * side[S_LAST] - 1)
    mask = U((1 << bits) - 1)
    for f in range(out.size):
        at = side[S_META] + 2 * (f // size)
        scale, offset = widen(record[at]), np.float32(sign * widen(record[at + 1]))
        code = U(U(record[side[S_CODES] + f * bits // 16]) >> U(f * bits % 16)) & mask
        out[f] = canonical(np.float32(np.float32(scale * np.float32(np.int32(code))) + offset))
