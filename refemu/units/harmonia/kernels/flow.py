"""Clocks of one product on Harmonia's accelerator, for harmonia_core.flow: the events of its plan as they are placed by
harmonia_core.timeline. [harmonia §IV-A, Fig. 12, §IV-C, §IV-D]

sizes: integers by the names below. there, first (bands of 8 rows, units of columns): clocks at which the last and the
first column of the last event on a place left. now: registers that the next product continues from.
"""

from refemu.arith.jit import helper, kernel

SIZES = (
    "v",  # whether C is grouped along its rows, 32 at a time
    "score",
    "final",  # whether C stays FP16
    "shifted",  # whether offsets are subtracted
    "direct",  # whether columns pass from FP2Half to the converter
    "bias",  # 0 none, 1 after FP2Half, 2 before it
    "rows",
    "columns",
    "tile_m",
    "tile_k",
    "dataflow",
    "unit",  # columns of a unit
    "tracked",  # rows that wait for the offsets
    "lanes",
    "passes",  # a pass begins 0 as the last column of the one before leaves, 1 a clock later, 2 as slots are free
    "clocks",  # clocks of a bit of the memory: numerator, and denominator
    "bits",
    "groups",  # groups of the reduction
    "narrow",  # slots of a group of 4 bits, and of 8 bits
    "wide",
    "mixed",
    "together",  # whether rows that see different codes share a pass
    "code",  # bits of a result
)
(
    V,
    SCORE,
    FINAL,
    SHIFTED,
    DIRECT,
    BIAS,
    ROWS,
    COLUMNS,
    TILE_M,
    TILE_K,
    DATAFLOW,
    UNIT,
    TRACKED,
    LANES,
    PASSES,
    CLOCKS,
    BITS,
    GROUPS,
    NARROW,
    WIDE,
    MIXED,
    TOGETHER,
    CODE,
) = range(len(SIZES))
PARTS = 7
LOAD, ARRAY, HALF, VECTOR, OFFSET, COMPARE, ALIGN, STORE = range(8)  # parts, in `free` and in `busy`
BUSY, DONE, LEFT, BANKS, TILES, WAITS, READS, WRITES, RELEASED, SHIFT, GONE, NEW = (
    8,
    16,
    17,
    18,
    20,
    22,
    26,
    27,
    28,
    30,
    31,
    32,
)
PAIRS, WIDE_PAIRS = 33, 34  # groups of a row and a column in scores, and those of 8 bits
NOW = 35
W_LOAD, W_BUFFER, W_BANK, W_ALIGN = range(WAITS, WAITS + 4)
N_PASSES, N_SLOTS, N_PITCH, N_FIRST, N_LAST = range(5)
BAND, SKEW = 8, 15  # rows of the array; clocks from its first to its last column


@kernel
def flow(
    sizes,
    edges,
    heads,
    falls,
    tiles,
    seen,
    keys,
    bands,
    stays,
    passing,
    there,
    first,
    missing,
    part,
    work,
    now,
    reads,
    writes,
):
    """Place one product.

    edges: of the groups of C; heads: of what the vector unit takes, none: (0,). falls (units,): see harmonia_core.flow.
    tiles (tiles of 16, 2): least and greatest cache length at which one of its keys is demoted, never: the largest int.
    seen, keys (rows,): cache length whose widths, and keys that, each row sees. bands (bands or 1, 5): passes of a
    tile, slots, clocks until the array is free, slots of the first and the last pass. stays (tiles,), passing (tiles,
    tiles): bits. missing, part: columns of groups, and of parts, that are not computed. work (5,).
    """
    now[SHIFT] = now[GONE] = now[RELEASED] = now[RELEASED + 1] = now[NEW] = 0
    tiles_m = (sizes[ROWS] + sizes[TILE_M] - 1) // sizes[TILE_M]
    tiles_k = (sizes[COLUMNS] + sizes[TILE_K] - 1) // sizes[TILE_K]
    outer, inner = tiles_m, tiles_k
    if sizes[DATAFLOW] == 1:
        outer, inner = tiles_k, tiles_m
    for o in range(outer):
        if stays[o] < 0:
            continue
        _load(stays[o], sizes, now, reads)
        for i in range(inner):
            if passing[o, i] < 0:
                continue
            _load(passing[o, i], sizes, now, reads)
            mt, kt = o, i
            if sizes[DATAFLOW] == 1:
                mt, kt = i, o
            _tile(
                mt,
                kt,
                sizes,
                edges,
                heads,
                falls,
                tiles,
                seen,
                keys,
                bands,
                there,
                first,
                missing,
                part,
                work,
                now,
                writes,
            )


@helper
def _clocks(bits, sizes):
    return (bits * sizes[CLOCKS] + sizes[BITS] - 1) // sizes[BITS]


@helper
def _load(bits, sizes, now, reads):
    """Into the buffer that the array does not read."""
    now[W_BUFFER] += max(now[TILES] - now[LOAD], 0)
    start, clocks = max(now[LOAD], now[TILES]), _clocks(bits, sizes)
    now[LOAD] = start + clocks
    now[BUSY + LOAD] += clocks
    reads[now[READS], 0], reads[now[READS], 1] = start, start + clocks
    now[READS] += 1
    now[NEW] = 1
    now[DONE] = max(now[DONE], now[LOAD])


@helper
def _tile(mt, kt, sizes, edges, heads, falls, tiles, seen, keys, bands, there, first, missing, part, work, now, writes):
    """Blocks of a tile in the order of the dataflow."""
    top, left = mt * sizes[TILE_M], kt * sizes[TILE_K]
    bottom, right = min(top + sizes[TILE_M], sizes[ROWS]), min(left + sizes[TILE_K], sizes[COLUMNS])
    tall, broad = BAND, 32
    if sizes[V] == 1:
        tall, broad = 32, 16
    down, across = (bottom - top + tall - 1) // tall, (right - left + broad - 1) // broad
    for n in range(down * across):
        y, x = n // across, n % across
        if sizes[DATAFLOW] == 1:
            y, x = n % down, n // down
        row, column = top + y * tall, left + x * broad
        high, wide = min(tall, bottom - row), min(broad, right - column)
        if sizes[SCORE] == 1 and keys[row + high - 1] <= column:
            continue
        _block(
            row,
            column,
            high,
            wide,
            sizes,
            edges,
            heads,
            falls,
            tiles,
            seen,
            keys,
            bands,
            there,
            first,
            missing,
            part,
            work,
            now,
            writes,
        )


@helper
def _block(
    row,
    column,
    high,
    wide,
    sizes,
    edges,
    heads,
    falls,
    tiles,
    seen,
    keys,
    bands,
    there,
    first,
    missing,
    part,
    work,
    now,
    writes,
):
    """A block, and everything whose last missing part it was."""
    columns = _compute(row, column, high, wide, sizes, falls, tiles, seen, keys, bands, there, first, work, now)
    size = high * wide
    vector = (size + sizes[LANES] - 1) // sizes[LANES]
    half = (high + BAND - 1) // BAND * columns
    if sizes[BIAS] == 2:
        _stream(VECTOR, row, column, high, wide, vector, sizes, there, first, now)
    _stream(HALF, row, column, high, wide, half, sizes, there, first, now)
    if sizes[BIAS] == 1:
        _stream(VECTOR, row, column, high, wide, vector, sizes, there, first, now)
    band = row // BAND
    if sizes[V] == 1:
        _leave(row, column, high, wide, sizes, there, first, now, writes)
        return
    if heads.size == 1:
        _groups(row, column, column + wide, high, sizes, edges, there, first, missing, now, writes)
    else:
        before = _place(heads, column)
        place = before
        while place < heads.size - 1 and heads[place] < column + wide:
            common = min(heads[place + 1], column + wide) - max(heads[place], column)
            part[band, place] -= common
            if part[band, place] == 0:
                last = _last(heads[place + 1], row + high - 1, sizes, keys)
                clocks = (high * (last - heads[place]) + sizes[LANES] - 1) // sizes[LANES]
                _whole(VECTOR, row, heads[place], high, last - heads[place], clocks, sizes, there, first, now)
            place += 1
        place = before
        while place < heads.size - 1 and heads[place] < column + wide:
            if part[band, place] == 0:
                part[band, place] = -1
                last = _last(heads[place + 1], row + high - 1, sizes, keys)
                _groups(row, heads[place], last, high, sizes, edges, there, first, missing, now, writes)
            place += 1
    if sizes[SHIFTED] == 1:
        _keys(sizes, edges, there, first, missing, now, writes)


@helper
def _last(edge, row, sizes, keys):
    """End of the blocks that a row sees, before an edge."""
    if sizes[SCORE] == 0:
        return edge
    return min(edge, (keys[row] + 31) // 32 * 32)


@helper
def _place(edges, column):
    """The part that a column is in."""
    low, high = 0, edges.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if edges[middle] <= column:
            low = middle
        else:
            high = middle
    return low


@helper
def _compute(row, column, high, wide, sizes, falls, tiles, seen, keys, bands, there, first, work, now):
    """The passes of the array over a block; return its columns, without tiles that no row sees."""
    now[W_LOAD] += max(now[LOAD] - now[ARRAY], 0)
    start = max(now[ARRAY], now[LOAD])
    clock, end, early, columns = start, start, start, 0
    for top in range(row, row + high, BAND):
        below = min(top + BAND, row + high)
        for left in range(column, column + wide, 16):
            if sizes[SCORE] == 1 and keys[below - 1] <= left:
                continue
            _passes(top, below, left, min(left + 16, sizes[COLUMNS]), sizes, falls, tiles, seen, bands, work, now)
            if columns == 0:
                early = start + work[N_FIRST]
            if top == row:
                columns += min(16, column + wide - left)
            end = clock + work[N_PITCH]
            if sizes[PASSES] == 0:
                clock += work[N_SLOTS] + SKEW * work[N_PASSES]
                end = clock
            elif sizes[PASSES] == 1:
                clock += work[N_SLOTS] + (SKEW + 1) * work[N_PASSES]
                end = clock - 1
            else:
                end = clock + work[N_PITCH] - max(work[N_LAST], SKEW + 1) + work[N_LAST] + SKEW
                clock += work[N_PITCH]
    now[ARRAY] = clock
    now[BUSY + ARRAY] += clock - start
    if now[NEW] == 1:
        now[TILES] = now[TILES + 1]
    now[TILES + 1] = end
    now[NEW] = 0
    now[DONE] = max(now[DONE], end)
    _set(row, column, high, wide, end, early, sizes, there, first)
    return columns


@helper
def _passes(top, bottom, left, right, sizes, falls, tiles, seen, bands, work, now):
    """Passes over a tile: for scores a pass for each set of widths, which are fewer the more keys are demoted."""
    pairs = (right - left) * sizes[GROUPS]
    now[PAIRS] += pairs * (bottom - top)
    if sizes[SCORE] == 0 or sizes[MIXED] == 0:
        for n in range(5):
            work[n] = bands[min(top // BAND, bands.shape[0] - 1), n]
        return
    work[N_PASSES] = work[N_SLOTS] = work[N_PITCH] = 0
    slots = sizes[GROUPS] * sizes[NARROW]
    for r in range(top, bottom):
        same = r > top and (sizes[TOGETHER] == 1 or not _demoted(seen[r - 1], seen[r], left, right, falls, tiles))
        if not same:
            slots = sizes[GROUPS] * sizes[NARROW]
            if tiles[left // 16, 1] > seen[r]:
                slots = sizes[GROUPS] * sizes[WIDE]
        if slots > sizes[GROUPS] * sizes[NARROW]:
            now[WIDE_PAIRS] += pairs
        if same:
            continue
        if work[N_PASSES] == 0:
            work[N_FIRST] = slots
        work[N_PASSES] += 1
        work[N_SLOTS] += slots
        work[N_PITCH] += max(slots, SKEW + 1)
        work[N_LAST] = slots


@helper
def _demoted(before, after, left, right, falls, tiles):
    """Whether a key of a tile is demoted between two cache lengths."""
    if before == after or after < tiles[left // 16, 0] or before >= tiles[left // 16, 1]:
        return False
    for j in range(left, right):  # noqa: SIM110 - numba
        if before < falls[j] <= after:
            return True
    return False


@helper
def _set(row, column, high, wide, end, early, sizes, there, first):
    for band in range(row // BAND, (row + high + BAND - 1) // BAND):
        for u in range(column // sizes[UNIT], (column + wide + sizes[UNIT] - 1) // sizes[UNIT]):
            there[band, u] = end
            first[band, u] = early


@helper
def _bounds(row, column, high, wide, sizes, times):
    """Least and greatest of the times of a rectangle."""
    least = greatest = times[row // BAND, column // sizes[UNIT]]
    for band in range(row // BAND, (row + high + BAND - 1) // BAND):
        for u in range(column // sizes[UNIT], (column + wide + sizes[UNIT] - 1) // sizes[UNIT]):
            least = min(least, times[band, u])
            greatest = max(greatest, times[band, u])
    return least, greatest


@helper
def _stream(name, row, column, high, wide, clocks, sizes, there, first, now):
    """A part that takes columns as they come: it ends a clock after the last one, or later."""
    start = max(now[name], _bounds(row, column, high, wide, sizes, first)[0])
    now[BUSY + name] += clocks
    now[name] = max(start + clocks, _bounds(row, column, high, wide, sizes, there)[1] + 1)
    now[DONE] = max(now[DONE], now[name])
    _set(row, column, high, wide, now[name], start + 1, sizes, there, first)


@helper
def _whole(name, row, column, high, wide, clocks, sizes, there, first, now):
    """A part that waits until all is in the temporary SRAM; returns its start."""
    start = max(now[name], _bounds(row, column, high, wide, sizes, there)[1])
    now[BUSY + name] += clocks
    now[name] = start + clocks
    now[DONE] = max(now[DONE], now[name])
    _set(row, column, high, wide, now[name], start + 1, sizes, there, first)
    return start


@helper
def _groups(row, column, right, high, sizes, edges, there, first, missing, now, writes):
    """Groups of 8 rows that lack nothing any more leave, or wait for the offsets."""
    band, place = row // BAND, _place(edges, column)
    while place < edges.size - 1 and edges[place] < right:
        missing[band, place] -= min(edges[place + 1], right) - max(edges[place], column)
        if missing[band, place] == 0 and sizes[SHIFTED] == 0:
            _leave(
                row,
                edges[place],
                high,
                min(edges[place + 1], sizes[COLUMNS]) - edges[place],
                sizes,
                there,
                first,
                now,
                writes,
            )
        place += 1


@helper
def _keys(sizes, edges, there, first, missing, now, writes):
    """Keys go through the offsets in order; those of the window leave after the last of them."""
    while now[SHIFT] < sizes[ROWS]:
        band = now[SHIFT] // BAND
        for place in range(edges.size - 1):
            if missing[band, place] > 0:
                return
        row = now[SHIFT]
        rows = min(BAND, sizes[ROWS] - row)
        clocks = (rows * sizes[COLUMNS] + sizes[LANES] - 1) // sizes[LANES]
        start = _whole(OFFSET, row, 0, rows, sizes[COLUMNS], clocks, sizes, there, first, now)
        now[RELEASED], now[RELEASED + 1] = start + 1, start + clocks
        now[SHIFT] += rows
        while now[SHIFT] >= sizes[TRACKED] and now[GONE] < now[SHIFT]:
            row = now[GONE]
            rows = min(BAND, sizes[ROWS] - row)
            for place in range(edges.size - 1):
                _leave(row, edges[place], rows, edges[place + 1] - edges[place], sizes, there, first, now, writes)
            now[GONE] += BAND


@helper
def _leave(row, column, high, wide, sizes, there, first, now, writes):
    """A group through the converter, or FP16 words column by column, and into the memory."""
    groups = high
    if sizes[V] == 1:
        groups = wide
    bits = high * wide * sizes[CODE]
    if sizes[FINAL] == 0:
        _convert(row, column, high, wide, sizes, there, first, now)
        bits += 5 * groups
    ready = _bounds(row, column, high, wide, sizes, there)[1]
    clocks = _clocks(bits, sizes)
    now[BUSY + STORE] += clocks
    writes[now[WRITES], 0], writes[now[WRITES], 1] = ready, clocks
    now[WRITES] += 1
    if sizes[FINAL] == 1:
        now[LEFT] = max(now[LEFT], ready) + wide
        now[DONE] = max(now[DONE], now[LEFT])


@helper
def _convert(row, column, high, wide, sizes, there, first, now):
    """Fill a bank as columns come, then run the aligner, which both banks share."""
    clocks = wide
    if sizes[V] == 1:
        clocks = (high + BAND - 1) // BAND * 16
    low, top = _bounds(row, column, high, wide, sizes, first)
    last = _bounds(row, column, high, wide, sizes, there)[1]
    if sizes[SHIFTED] == 1:
        top, last = max(top, now[RELEASED]), max(last, now[RELEASED + 1])
    source = top
    if sizes[DIRECT] == 1:
        source = low
    now[W_BANK] += max(now[BANKS] - max(source, now[COMPARE]), 0)
    start = max(now[COMPARE], source, now[BANKS])
    end = max(start + clocks, last + 1)
    now[BUSY + COMPARE] += clocks
    now[COMPARE] = end
    if sizes[DIRECT] == 1 and start > source:
        now[ARRAY] += start - source
        now[HALF] += start - source
    now[W_ALIGN] += max(now[ALIGN] - end, 0)
    now[ALIGN] = max(now[ALIGN], end) + clocks
    now[BUSY + ALIGN] += clocks
    now[BANKS], now[BANKS + 1] = now[BANKS + 1], now[ALIGN]
    now[DONE] = max(now[DONE], now[ALIGN])
    _set(row, column, high, wide, now[ALIGN], start + 1, sizes, there, first)


@kernel
def written(reads, writes, now):
    """Clock at which the last result is in the memory: writes go between the reads, one after the other."""
    clock = at = 0
    for n in range(now[WRITES]):
        clock, left = max(clock, writes[n, 0]), writes[n, 1]
        while at < now[READS] and reads[at, 0] < clock + left:
            if reads[at, 1] > clock:
                left, clock = left - max(reads[at, 0] - clock, 0), reads[at, 1]
            at += 1
        clock += left
    return clock
