"""Compiled form of page_reader: all tokens of all rows at once, gathered by word. [leankv §5.2, §6.2]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith import fp16
from refemu.formats.leankv.affine import WORD
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.leankv.page_reader import UNIT, PageReader


@compiled_run(UNIT)
def run(device: PageReader, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """A gather for each section and part of a record."""
    images, entry, n_high, n_low = inputs
    rows = n_high.size
    pool = images.reshape(rows, device.cells, device.layouts.high.size // 2).astype(np.uint16, copy=False)
    cells = entry.reshape(rows, device.cells).astype(np.int64)
    counts = n_high.reshape(-1).astype(np.int64), n_low.reshape(-1).astype(np.int64)
    key, value, score, position = outputs
    for array in (key, value, score, position):
        array[...] = 0
    pages = words = 0
    for section, count in enumerate(counts):
        if not count.any():  # also without rows
            continue
        layout = device.layouts.sections[section]
        row = np.repeat(np.arange(rows), count)
        token = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        number, slot = np.divmod(token, layout.tokens)
        page = cells[row, number if section == 0 else device.cells - 1 - number]
        lane = token if section == 0 else token + counts[0][row]
        record = pool[row[:, None], page[:, None], layout.slot_words[slot]]
        parts = {name: record[:, part] for name, part in layout.parts.items()}
        config, preset = layout.config, device.preset
        for fmt, codes, meta, out in (
            (config.key(preset), parts["key"], parts["key_meta"], key),
            (config.value(preset), parts["val"], parts["val_meta"], value),
        ):
            values = _values(codes, meta, fmt.bits, fmt.groups, fmt.zero == "neg_min")
            stored = values.view(np.uint32) if device.output == "fp32" else fp16.bits(fp16.narrow(values))
            out.reshape(rows, len(out[0]) // device.head_size, device.head_size)[row, lane] = stored
        for name, out in (("score", score), ("pos", position)):
            out[row, lane] = np.ascontiguousarray(parts[name]).view("<u4")[:, 0].view(out.dtype)
        pages += int(np.count_nonzero(slot == 0))
        words += record.size
    return [pages, words]


def _values(words: np.ndarray, meta: np.ndarray, bits: int, groups: int, subtracted: bool) -> np.ndarray:
    """float32 (tokens, F): a lane of a word after the other."""
    per = WORD // bits
    codes = np.empty((*words.shape, per), np.uint16)
    for lane in range(per):
        codes[..., lane] = words >> np.uint16(lane * bits) & np.uint16((1 << bits) - 1)
    if bits == WORD:
        return fp16.canonical(codes.reshape(len(words), -1).view(np.float16).astype(np.float32))
    pairs = np.ascontiguousarray(meta).view(np.float16).astype(np.float32).reshape(len(meta), groups, 2)
    with np.errstate(all="ignore"):
        values = codes.reshape(len(words), groups, -1).astype(np.float32) * pairs[..., :1]
        values += -pairs[..., 1:] if subtracted else pairs[..., 1:]
    return np.ascontiguousarray(fp16.canonical(values).reshape(len(words), -1))
