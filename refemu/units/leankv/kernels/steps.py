"""Generation steps of KV heads that share a pool of pages, and the calls of their memory managers.

Paper: [leankv §4 Algorithm 1, §5.3, §6.1]. Everywhere: pools = cells (H, L), used (H, 2), tokens (H, 2), ring (pages,),
ends (2,) as page_manager's kernels have them; held = a row of requests, loaded (H, 2); memory = images, and cells and
tokens of a request. `all_events` takes arrays with devices in front, and `_managed` all R requests of a device, with
entries R * H instead of H.
"""

import numpy as np

from refemu.arith.jit import callee, kernel
from refemu.arith.kernels import narrow_all
from refemu.units.leankv.generation_compressor.compiled import (
    ALGORITHM1,
    R_EPOCH,
    R_POLICY,
    R_SELF,
    RULES,
    STATIC,
    choose,
)
from refemu.units.leankv.kernels.attention import paged_heads
from refemu.units.leankv.kernels.chunks import join_chunks, tasks_of
from refemu.units.leankv.kernels.pages import P_TOKENS, paged_scores
from refemu.units.leankv.kernels.records import lower, put
from refemu.units.leankv.page_manager.compiled.events import PRUNED, Z_SCRUB, called
from refemu.units.leankv.paged_attention.compiled.page_reads import gather

LOAD, ADMIT, STEP = range(3)  # operations; any other is the end of a request
MOST = Z_SCRUB + 1  # entry of `sizes`: most tokens of a prompt
SEEN, PROMPT = range(2)  # entries of a row of `requests`: tokens so far (0: no request), tokens of the prompt
# Entries of `totals` after those of the manager: divisions and comparisons of decisions; tokens written and moved;
# words that plans read, that moves read, of records written.
DIVISIONS, COMPARISONS, WRITTEN, MOVED, PLAN_WORDS, MOVE_WORDS, RECORD_WORDS, TOTALS = range(PRUNED + 1, PRUNED + 9)
R_MEAN = RULES  # entry of `rule` after those of generation_compressor: the mean of heads


@kernel
def all_events(ports, shown, registers, pools, held, images, sizes, sums, pages, storage, rule, totals, first, last):
    """Whether all events of devices `first` to `last` are admitted; with arrays (D, E, ...) for D devices, E events.

    ports: op, members and prompts (R,), then for each request tokens retained (H, 2), section, score, position (H,),
    vectors of key and value (H, 2, F), q (H, G, F) as float32; window, thresholds. For each request shown <- choice,
    victim, low_slot (H,), taken (H, 2), written, moved (H, words), out, p, scores.
    registers <- tokens so far, stored, loaded (H, 2), cells (H, L), place of the next free page, free pages.
    images (D, pages, words). sizes, sums: as of `_managed`. pages: layout, words of packs of keys and of values,
    numbers and settings of `paged_heads`, sections of `gather`. storage: as records.py has it. totals (D, TOTALS) +=
    counts.
    """
    op, members, prompt, keep, section, score, position, vectors, q, window, limits = ports
    choice, victim, low_slot, taken, written, moved, out, p, scores = shown
    seen, stored, loads, table, start, free = registers
    cells, used, tokens, ring, ends = pools
    requests, loaded = held
    count, heads = requests.shape[1], keep.shape[3]
    plan = np.empty((count, 7, heads), np.int64)
    for d in range(first, last):
        all_cells, all_tokens = cells[d].reshape(count * heads, -1), tokens[d].reshape(count * heads, 2)
        pool = (all_cells, used[d], all_tokens, ring[d], ends[d])
        for e in range(op.shape[1]):
            grow = keep[d, e].copy()
            for r in range(count):
                if op[d, e] != STEP or members[d, e, r] == 0:
                    continue
                memory, request = (images[d], cells[d, r], tokens[d, r]), (requests[d, r], loaded[d, r])
                if not _decided(memory, request, pages[5], window[d, e], limits[d, e], rule, plan[r], totals[d]):
                    return False
                for h in range(heads):
                    choice[d, e, r, h], victim[d, e, r, h] = plan[r, 0, h], plan[r, 1, h]
                    low_slot[d, e, r, h] = plan[r, 2, h]
                    grow[r, h, 0], grow[r, h, 1] = plan[r, 3, h], plan[r, 4, h]
            if not _managed(
                op[d, e], members[d, e], prompt[d, e], grow, sizes, sums, pool, (requests[d], loaded[d]), taken[d, e],
                totals[d],
            ):  # fmt: skip
                return False
            for r in range(count):
                memory, request = (images[d], cells[d, r], tokens[d, r]), (requests[d, r], loaded[d, r])
                if op[d, e] == LOAD:
                    operands = section[d, e, r], score[d, e, r], position[d, e, r], vectors[d, e, r]
                    if not _loaded(memory, request, pages[5], storage, rule, operands, written[d, e, r], totals[d]):
                        return False
                elif op[d, e] == STEP and members[d, e, r] != 0:
                    newest = requests[d, r, SEEN] - 1
                    both, new = (written[d, e, r], moved[d, e, r]), vectors[d, e, r]
                    if not _stored(memory, newest, pages[0], storage, plan[r], new, both, totals[d]):
                        return False
                    _attended(memory, newest, pages, rule, q[d, e, r], out[d, e, r], p[d, e, r], scores[d, e, r])
            start[d, e], free[d, e] = ends[d, 0] % ring.shape[1], ends[d, 1] - ends[d, 0]
            seen[d, e], stored[d, e], loads[d, e], table[d, e] = requests[d, :, SEEN], tokens[d], loaded[d], cells[d]
    return True


@callee
def _decided(memory, request, sections, window, limits, rule, plan, totals):
    """plan (7, H) <- decisions of all heads; return False for an invalid step."""
    images, cells, tokens = memory
    numbers, loaded = request
    if numbers[SEEN] == 0:
        return False
    heads, most, words = tokens.shape[0], np.int64(0), np.int64(0)
    for h in range(heads):
        for s in range(2):
            if numbers[SEEN] == numbers[PROMPT] and loaded[h, s] != tokens[h, s]:
                return False
        most = max(most, tokens[h, 0] + tokens[h, 1])
        words += tokens[h, 0] + tokens[h, 1]
    score, position = np.empty((heads, most), np.uint32), np.empty((heads, most), np.uint32)
    gather(images, cells, tokens, sections, score, position)
    if rule[R_POLICY] == ALGORITHM1 and _in_window(position, tokens, numbers[SEEN] - window):
        return False
    inputs, thresholds = np.empty((5, heads), np.int64), np.empty((heads, 2), np.float32)
    for h in range(heads):
        inputs[0, h], inputs[1, h], inputs[2, h] = tokens[h, 0], tokens[h, 1], numbers[SEEN]
        inputs[3, h], inputs[4, h] = numbers[PROMPT], window
        thresholds[h, 0], thresholds[h, 1] = limits[0], limits[1]
        if rule[R_POLICY] == STATIC and tokens[h, 1] > 0:
            return False
    share, total = np.empty((heads, most), np.float32), np.empty(heads, np.float32)
    divisions, looked = choose(score.view(np.float32), position, inputs, thresholds, rule, share, total, share, plan)
    totals[DIVISIONS] += divisions
    totals[COMPARISONS] += looked
    totals[PLAN_WORDS] += 4 * words
    return True


@callee
def _place(cells, head, section, slot, held):
    """Image of a slot of a section, whose pages hold so many tokens."""
    cell = slot // held
    if section == 1:
        cell = cells.shape[1] - 1 - cell
    return np.int64(cells[head, cell])


@callee
def _loaded(memory, request, sections, storage, rule, operands, written, totals):
    """Write retained tokens of a prompt into their slots, at most one of a head; return False for an invalid one."""
    images, cells, tokens = memory
    numbers, loaded = request
    section, score, position, vectors = operands
    for h in range(section.size):
        if section[h] == 0:
            continue
        s = section[h] - 1
        slot, held = loaded[h, s], sections[s, 0]
        if slot >= tokens[h, s] or position[h] >= numbers[PROMPT]:
            return False
        if rule[R_EPOCH] == 0 and _held(images, cells[h : h + 1], loaded[h : h + 1], sections, position[h]):
            return False
        image = _place(cells, h, s, slot, held)
        if not put(images, image, slot % held, storage, s, vectors[h], score[h], position[h], written[h]):
            return False
        loaded[h, s] += 1
        totals[WRITTEN] += 1
        totals[RECORD_WORDS] += storage[2 * s].shape[1]
    return True


@callee
def _held(images, cells, lengths, sections, position):
    """Whether a position is one of the tokens of a head."""
    count = lengths[0, 0] + lengths[0, 1]
    score, positions = np.empty((1, count), np.uint32), np.empty((1, count), np.uint32)
    gather(images, cells, lengths, sections, score, positions)
    times = 0
    for i in range(count):
        times += np.int64(positions[0, i]) == position
    return times > 0


@callee
def _stored(memory, newest, layout, storage, plan, vectors, records, totals):
    """Do the moves of all heads and write their new tokens; return False for an invalid vector."""
    images, cells, _ = memory
    held, fits = layout[0, P_TOKENS], layout[1, P_TOKENS]
    written, moved = records
    for h in range(vectors.shape[0]):
        slot, to = plan[1, h], plan[2, h]
        image, inside = _place(cells, h, 0, slot, held), slot % held
        if to >= 0:
            target = _place(cells, h, 1, to, fits)
            if not lower(images, image, inside, target, to % fits, storage, vectors.shape[2], moved[h]):
                return False
            totals[MOVED] += 1
            totals[MOVE_WORDS] += storage[0].shape[1]
            totals[RECORD_WORDS] += storage[2].shape[1]
        if not put(images, image, inside, storage, 0, vectors[h], 0, newest, written[h]):
            return False
        totals[WRITTEN] += 1
        totals[RECORD_WORDS] += storage[0].shape[1]
    return True


@callee
def _attended(memory, newest, pages, rule, q, out, p, scores):
    """out (H, G, F) <- attention of all heads, with p (H, G, slots) and scores (H, slots), also written to pages."""
    images, cells, tokens = memory
    layout, key_packs, value_packs, numbers, settings, sections = pages
    heads, group, features = q.shape
    tasks, kept = tasks_of(tokens, layout, settings), np.full(heads, newest)
    if rule[R_SELF] != 0:
        kept[:] = -1
    tops, bottoms = np.empty((len(tasks), group), np.int32), np.empty((len(tasks), group), np.float32)
    sums, attention = np.empty((len(tasks), group, features), np.float32), np.empty(q.shape, np.float32)
    logits, accs = np.empty((0, 0, 0), np.float32), np.empty((1, 0, 0, 0), np.float32)
    results = p, tops, bottoms, sums, logits, accs
    paged_heads(q, memory, (layout, key_packs, value_packs), numbers, settings, tasks, results, 0, len(tasks))
    join_chunks(tasks, results, numbers, settings, attention)
    narrow_all(attention.reshape(attention.size), out.reshape(out.size))
    paged_scores(images, cells, tokens, layout, kept, p, rule[R_MEAN] != 0, 0, heads)
    positions = np.empty(scores.shape, np.uint32)
    gather(images, cells, tokens, sections, scores, positions)


@callee
def _managed(op, members, prompt, grow, sizes, sums, pool, held, taken, totals):
    """Do the call of one device if it is admitted; return whether it was.

    grow (R, H, 2): tokens retained, or that sections gain. sizes: as the manager's kernels have them, and most tokens
    of a prompt. sums: as of `walk`. taken (R, H, 2) <- pages that a step takes.
    """
    ring = pool[3]
    numbers, loaded = held
    if op == LOAD:
        return True
    heads, chosen = grow.shape[1], np.flatnonzero(members)
    size = chosen.size * heads
    if size == 0:
        return False
    entries, lengths, ids = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(ring.size, np.int64)
    counts, prefix, retained = np.empty(2 * size, np.int64), np.empty(2 * size, np.int64), np.empty((2, size), np.int64)
    for i in range(chosen.size):
        r = chosen[i]
        if (op == ADMIT) != (numbers[r, SEEN] == 0):
            return False
        if op == ADMIT and (prompt[r] < 1 or prompt[r] > sizes[MOST]):
            return False
        for h in range(heads):
            at = i * heads + h
            entries[at], lengths[at] = r * heads + h, prompt[r]
            retained[0, at], retained[1, at] = grow[r, h, 0], grow[r, h, 1]
    moves = counts, prefix, np.empty(2 * size, np.int64), np.empty(2 * size, np.int64), ids
    for kind in range(op - np.int64(op == ADMIT), op + 1):  # an admission is both calls for a prompt
        if not called(kind, pool, sizes, entries, lengths, retained[0], retained[1], moves, sums, totals):
            return False
    if op == STEP:
        at = 0
        for i in range(2 * size):
            if counts[i] > 0:
                taken[entries[i // 2] // heads, entries[i // 2] % heads, i % 2] = ids[at]
                at += 1
    for r in chosen:
        if op == STEP:
            numbers[r, SEEN] += 1
            continue
        begins = np.int64(0)
        if op == ADMIT:
            begins = prompt[r]
        numbers[r, SEEN], numbers[r, PROMPT] = begins, begins
        loaded[r, :, :] = 0
    return True


@callee
def _in_window(position, lengths, border):
    """Whether a low token of a device is of the window."""
    for h in range(position.shape[0]):
        for i in range(lengths[h, 0], lengths[h, 0] + lengths[h, 1]):
            if np.int64(position[h, i]) >= border:
                return True
    return False
