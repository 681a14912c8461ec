"""Classes of tokens by chance: what a serving simulation has instead of attention scores. [leankv §4]

A token's word is splitmix64's, of the head's seed and the token's index, so a token has the same class whenever and in
whatever company it is classified. Its upper 32 bits are compared with two limits of the head: pruned below the first,
low below the second, else high.
"""

import numpy as np

from refemu.arith.jit import helper, kernel

U = np.uint64
STEP, FIRST, SECOND = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)


@kernel
def kept(seeds, limits, tokens, window, high, low):
    """high, low (S, H) <- tokens that heads retain of prompts; seeds (S, H) uint64, limits (H, 2), tokens (S,)."""
    for s in range(tokens.size):
        old = max(tokens[s] - window, np.int64(0))
        for h in range(limits.shape[0]):
            more, less = tokens[s] - old, np.int64(0)
            for t in range(old):
                word = _word(seeds[s, h], t)
                more += np.int64(word >= limits[h, 1])
                less += np.int64(limits[h, 0] <= word < limits[h, 1])
            high[s, h], low[s, h] = more, less


@kernel
def grown(seeds, limits, slots, seen, window, tokens, used, sizes, growth):
    """growth (S, H) uint8 <- class of the token that leaves the window: 0 pruned, 1 low, 2 high; returns needed pages.

    slots, seen (S,): rows of seeds (R, H), and tokens before. tokens, used (R * H, 2): of the manager; sizes (2,):
    tokens of a page.
    """
    needed, heads = np.int64(0), limits.shape[0]
    for s in range(slots.size):
        leaving, first = seen[s] - window, slots[s] * heads
        for h in range(heads):
            kind = np.int64(2)
            if leaving >= 0:
                word = _word(seeds[slots[s], h], leaving)
                kind = np.int64(word >= limits[h, 0]) + np.int64(word >= limits[h, 1])
            growth[s, h] = kind
            section = np.int64(kind == 1)
            full = np.int64(tokens[first + h, section] == used[first + h, section] * sizes[section])
            needed += full * np.int64(kind > 0)
    return needed


@helper
def _word(seed, token):
    """The upper half of a word of splitmix64 (D-arith-14)."""
    z = U(seed + U(U(token + 1) * STEP))
    z = U(U(z ^ U(z >> U(30))) * FIRST)
    z = U(U(z ^ U(z >> U(27))) * SECOND)
    return np.int64(U(U(z ^ U(z >> U(31))) >> U(32)))
