"""Attention over block floating point codes, packed or not; read formats/harmonia/bfp_fields.py first. [harmonia]"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels.groups import FOUR, NIBBLE
from refemu.arith.kernels.matmul import PAD, block_fp32
from refemu.arith.kernels.orders import clear_all, copy_all, total_rows
from refemu.arith.kernels.rows import shifted_exp
from refemu.arith.kernels.scalars import canonical, round16

#: the bits of a byte as the bytes of a word, first bit lowest
SPREAD = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").view("<u8").reshape(-1)
HIGH_NIBBLE = np.uint8(0xF0)


@callee
def packed_rows(first, last, shared, packed, fields, out):
    """out (tokens, D) float32 <- head `shared` of packed tokens `first` to `last`, as signed integers.

    packed: bytes (tokens, KV heads, ...) of signs and upper bits, bytes of lower bits of the tokens but those from
    fallen[0] to fallen[1], fallen. fields: (width, first byte, bytes, weight) of the bits of either.
    """
    every, rest, fallen = packed
    words = np.empty((out.shape[1] + 7) // 8, np.uint64)
    row, signs = np.empty(8 * words.size, np.int32), words.view(np.uint8)
    if fields[0].shape[0] == 1 and fields[1].shape[0] == 1 and fields[0][0, 0] == 4 and fields[1][0, 0] == 4:
        row[:] = 0
        _nibble_rows(first, last, shared, packed, fields[0][0], words, row.view(np.uint8), out)
        return
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
def _nibble_rows(first, last, shared, packed, field, words, zeros, out):
    """`packed_rows` where upper and lower bits are four each: a loop over the bytes for either half of the codes."""
    every, rest, fallen = packed
    start, count, signs = field[1], field[2], words.view(np.uint8)
    for token in range(first, last):
        for c in range(words.size):
            words[c] = SPREAD[every[token, shared, c]]
        upper, lower = every[token, shared, start : start + count], zeros
        if token < fallen[0]:
            lower = rest[token, shared]
        elif token >= fallen[1]:
            lower = rest[token - (fallen[1] - fallen[0]), shared]
        low, high, high_signs = out[token - first], out[token - first, count:], signs[count:]
        for c in range(count):
            minus = np.int32(-np.int32(signs[c]))
            code = np.int32(np.int32(np.int32(upper[c] & NIBBLE) << np.int32(4)) | np.int32(lower[c] & NIBBLE))
            low[c] = np.float32(np.int32(np.int32(code ^ minus) - minus))
        for c in range(high.size):
            minus = np.int32(-np.int32(high_signs[c]))
            code = np.int32(np.int32(upper[c] & HIGH_NIBBLE) | np.int32(lower[c] >> FOUR))
            high[c] = np.float32(np.int32(np.int32(code ^ minus) - minus))


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


@kernel
def bfp_operand(x, group, width, out, powers):
    """Convert rows of fp16 values (M, K) to signed integers of `width` bits in groups, truncated; return 1 if a value
    is not finite, else 0.

    out: float32, zeros where a last group is short. powers (M, G): value of an integer 1 in a group.
    """
    status = 0
    for m in range(x.shape[0]):
        for g in range(powers.shape[1]):
            k0, k1 = g * group, min(g * group + group, x.shape[1])
            row, to, top = x[m, k0:k1], out[m, k0:k1], np.int32(0)
            for k in range(row.size):
                top = max(top, np.int32(np.float32(row[k]).view(np.int32) & np.int32(0x7FFFFFFF)))
            exponent = max(np.int32(np.int32(top >> np.int32(23)) - np.int32(127)), np.int32(-14))
            if top >= np.int32(0x7F800000):
                status = 1
            inverse = np.int32(np.int32(np.int32(126 + width) - exponent) << np.int32(23)).view(np.float32)
            for k in range(row.size):
                to[k] = np.float32(np.int32(np.float32(row[k] * inverse)))
            powers[m, g] = np.int32(np.int32(exponent + np.int32(128 - width)) << np.int32(23)).view(np.float32)
    return status


@kernel
def bfp_heads(q, q_powers, k, v, fields, low, falls, powers, group, width, settings, scale, start, out, first, last):
    """Key heads `first` to `last` of attention, eight rows at a time as in `attention_heads`; 1 if a score is not
    finite, else 0.

    q (T, H, D) float32 integers, q_powers (T, H, G). k, v: packed tokens as `packed_rows` takes them with `fields`,
    those that follow as signs and mantissas (tokens, KV, D), exponents, groups along D and along S. powers: value
    of a mantissa of 1 by exponent. width: mantissa bits of the scores. settings: whether partial sums, and scores,
    are rounded to fp16. Query t sees keys 0 to start + t. low, falls: signs and mantissas of k and of v, and counts of
    tokens (S,) at which they replace the others; S = 0 if none.
    """
    k_packed, k_sign, k_mantissa, k_exponent = k
    v_packed, v_sign, v_mantissa, v_exponent = v
    heads, depth, seen = q.shape[1] // k_sign.shape[1], q.shape[2], start + q.shape[0]
    groups, blocks, status = q_powers.shape[2], (seen + group - 1) // group, 0
    keys, values = np.empty((depth, seen + PAD + seen % 32), np.float32), np.empty((seen, depth), np.float32)
    key_powers, unit = np.empty((groups, seen + PAD), np.float32), np.empty((8, blocks), np.float32)
    value_powers = np.empty((blocks, depth), np.float32)
    queries, total = np.zeros((8, depth), np.float32), np.empty(8, np.float32)
    part, logits = np.zeros((8, seen + PAD), np.float32), np.empty((8, seen + PAD), np.float32)
    chances, sums = np.empty((8, seen + PAD), np.float32), np.zeros((8, depth), np.float32)
    mixed = np.empty((8, depth), np.float32)
    for shared in range(first, last):
        _packed_down(k_packed, fields, shared, keys, seen)
        _codes_down(k_packed[0].shape[0], k_sign, k_mantissa, shared, keys, seen)
        packed_rows(0, min(v_packed[0].shape[0], seen), shared, v_packed, fields, values)
        _codes_along(v_packed[0].shape[0], v_sign, v_mantissa, shared, values, seen)
        for j in range(seen):
            for g in range(groups):
                key_powers[g, j] = powers[k_exponent[j, shared, g]]
        for b in range(blocks):
            for d in range(depth):
                value_powers[b, d] = powers[v_exponent[b, shared, d]]
        r0 = 0
        while r0 < q.shape[0] * heads:
            rows = min(8, q.shape[0] * heads - r0)
            if falls[0].size:
                rows = min(rows, heads - r0 % heads)  # rows of one query: the next query has other codes
                _fall(low, falls, start + r0 // heads + 1, shared, keys, values)
            most = start + (r0 + rows - 1) // heads + 1
            for i in range(rows):
                copy_all(q[(r0 + i) // heads, shared * heads + (r0 + i) % heads], queries[i])
                clear_all(logits[i, :most])
                clear_all(chances[i, :most])  # a key that is not seen scores +0
                clear_all(mixed[i])
            clear_all(total)
            for g in range(groups):
                k0 = g * group
                block_fp32(queries, np.int64(k0), keys[k0 : min(k0 + group, depth)], part[:rows], most)
                for i in range(rows):
                    power = q_powers[(r0 + i) // heads, shared * heads + (r0 + i) % heads, g]
                    _add_group(part[i], power, key_powers[g], settings, logits[i], most)
            for i in range(rows):
                visible = start + (r0 + i) // heads + 1
                _scaled_logits(logits[i], scale, settings, visible)
                shifted_exp(logits[i, :visible], chances[i, :visible])
            total_rows(chances, most, total[:rows])
            for i in range(rows):
                status |= _scores_to_bfp(chances[i], total[i], group, width, unit[i], most)
            for b in range((most + group - 1) // group):
                k0 = b * group
                block_fp32(chances, np.int64(k0), values[k0 : min(k0 + group, most)], sums[:rows], depth)
                for i in range(rows):
                    _add_group(sums[i], unit[i, b], value_powers[b], settings, mixed[i], depth)
            for i in range(rows):
                o = out[(r0 + i) // heads, shared * heads + (r0 + i) % heads]
                for d in range(depth):
                    o[d] = canonical(round16(mixed[i, d]))
            r0 += rows
    return status


@callee
def _fall(low, falls, tokens, shared, keys, values):
    """Codes of head `shared` that fall when there are `tokens`, keys (D, ...) and values (S, D), as signed integers."""
    k_sign, k_mantissa, v_sign, v_mantissa = low
    for j in range(tokens):
        if falls[0][j] == tokens:
            for d in range(k_sign.shape[2]):
                sign = np.int32(1 - 2 * np.int32(k_sign[j, shared, d]))
                keys[d, j] = np.float32(np.int32(k_mantissa[j, shared, d]) * sign)
        if falls[1][j] == tokens:
            for d in range(v_sign.shape[2]):
                sign = np.int32(1 - 2 * np.int32(v_sign[j, shared, d]))
                values[j, d] = np.float32(np.int32(v_mantissa[j, shared, d]) * sign)


@callee
def _packed_down(packed, fields, shared, keys, seen):
    """keys (D, ...) <- head `shared` of packed tokens, sixteen at a time."""
    block = np.empty((16, keys.shape[0]), np.float32)
    tokens = min(packed[0].shape[0], seen)
    for j0 in range(0, tokens, 16):
        count = min(16, tokens - j0)
        packed_rows(j0, j0 + count, shared, packed, fields, block)
        for d in range(keys.shape[0]):
            to = keys[d, j0 : j0 + count]
            for i in range(count):
                to[i] = block[i, d]


@callee
def _codes_down(first, sign, mantissa, shared, keys, seen):
    """keys (D, ...) from position `first` on <- head `shared` of codes (tokens, KV, D) as signed integers, sixteen
    positions at a time.
    """
    for j0 in range(first, seen, 16):
        for d in range(sign.shape[2]):
            row = keys[d]
            for j in range(j0, min(j0 + 16, seen)):
                s, m = sign[j - first, shared, d], mantissa[j - first, shared, d]
                row[j] = np.float32(np.int32(m) * np.int32(1 - 2 * np.int32(s)))


@callee
def _codes_along(first, sign, mantissa, shared, values, seen):
    """values (S, D) from row `first` on <- head `shared` of codes (tokens, KV, D) as signed integers."""
    for j in range(first, seen):
        s, m, row = sign[j - first, shared], mantissa[j - first, shared], values[j]
        for d in range(s.size):
            row[d] = np.float32(np.int32(m[d]) * np.int32(1 - 2 * np.int32(s[d])))


@callee
def _add_group(part, power, powers, settings, out, width):
    """out += exact sums of one group times their powers of two, rounded to fp16 if settings[0]; part <- 0."""
    if settings[0]:
        for n in range(width):
            out[n] = np.float32(out[n] + round16(np.float32(part[n] * np.float32(power * powers[n]))))
            part[n] = np.float32(0)
        return
    for n in range(width):
        out[n] = np.float32(out[n] + np.float32(part[n] * np.float32(power * powers[n])))
        part[n] = np.float32(0)


@callee
def _scaled_logits(logits, scale, settings, width):
    """Scores rounded to fp16 if settings[1], then scaled."""
    if settings[1]:
        for n in range(width):
            logits[n] = np.float32(round16(logits[n]) * scale)
        return
    for n in range(width):
        logits[n] = np.float32(logits[n] * scale)


@callee
def _scores_to_bfp(chances, total, group, width, unit, seen):
    """Exponentials / total, rounded to fp16, as mantissas of `width` bits in groups whose unit goes to `unit`.

    The largest word gives the exponent, at least that of the smallest normal number. Returns 1 for NaN.
    """
    for b in range((seen + group - 1) // group):
        row = chances[b * group : min((b + 1) * group, seen)]
        top = np.int32(0)
        for n in range(row.size):
            row[n] = canonical(round16(canonical(row[n] / total)))
            top = max(top, np.float32(row[n]).view(np.int32))
        exponent = max(np.int32(np.int32(top >> np.int32(23)) - np.int32(127)), np.int32(-14))
        if top >= np.int32(0x7F800000):
            return 1
        inverse = np.int32(np.int32(np.int32(126 + width) - exponent) << np.int32(23)).view(np.float32)
        for n in range(row.size):
            row[n] = np.float32(np.int32(np.float32(row[n] * inverse)))
        unit[b] = np.int32(np.int32(exponent + np.int32(128 - width)) << np.int32(23)).view(np.float32)
    return 0
