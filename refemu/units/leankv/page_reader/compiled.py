"""Compiled form of page_reader: all tokens of all rows at once, gathered by word. [leankv §5.2, §6.2]"""

from collections.abc import Sequence

import numpy as np

from refemu.arith import fp16
from refemu.formats.leankv.compiled import affine as affine_compiled
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
        tokens = layout.tokens_of(record, device.preset)
        for each, out in ((tokens.key, key), (tokens.value, value)):
            decoded = affine_compiled.decode(each.format, each.code, each.scale, each.zero)
            values = fp16.canonical(np.asarray(decoded, np.float32))
            stored = values.view(np.uint32) if device.output == "fp32" else fp16.bits(fp16.narrow(values))
            out.reshape(rows, len(out[0]) // device.head_size, device.head_size)[row, lane] = stored
        for words_of, out in ((tokens.score, score), (tokens.position, position)):
            out[row, lane] = np.ascontiguousarray(words_of).view(out.dtype)
        pages += int(np.count_nonzero(slot == 0))
        words += record.size
    return [pages, words]
