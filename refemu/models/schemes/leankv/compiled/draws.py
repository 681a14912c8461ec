"""Classes of tokens by chance: what a serving simulation has instead of attention scores. [leankv §4]

A token's word is splitmix64's, of the head's seed and the token's index, so a token has the same class whenever and in
whatever company it is classified. Its upper 32 bits are compared with two limits of the head: pruned below the first,
low below the second, else high.
"""

import numpy as np

from refemu.arith.jit import inlined, kernel

U = np.uint64
STEP, FIRST, SECOND = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)


@kernel
def retained(seeds, limits, tokens, window, before, high, low):
    """high, low (S, H) <- tokens that heads retain of prompts; seeds (S, H) uint64, limits (H, 2), tokens (S,).

    high, low have those of the first `before` (S,) tokens, unless it is 0.
    """
    for s in range(tokens.size):
        begun, old = max(before[s] - window, np.int64(0)), max(tokens[s] - window, np.int64(0))
        for h in range(limits.shape[0]):
            seed, least, most, more, stored = seeds[s, h], limits[h, 0], limits[h, 1], np.int64(0), np.int64(0)
            if before[s] > 0:
                more = high[s, h] - (before[s] - begun)
                stored = low[s, h] + more
            for t in range(begun, old):
                word = _word(seed, t)
                stored += np.int64(word >= least)
                more += np.int64(word >= most)
            high[s, h], low[s, h] = tokens[s] - old + more, stored - more


@kernel
def ahead(seeds, limits, slots, seen, window, classes):
    """classes (S, 2, H) uint64 <- of the tokens that leave the window in the next 64 steps, as `growth.foresee` has it.

    slots, seen (S,): rows of seeds (R, H), and tokens before.
    """
    for s in range(slots.size):
        first = seen[s] - window
        inside = U(0)  # tokens that the window does not push out yet, so the new one is high
        if first < 0:
            inside = ~U(0) >> U(64 - min(-first, np.int64(64)))
        for h in range(limits.shape[0]):
            seed, least, most, stored, high = seeds[slots[s], h], limits[h, 0], limits[h, 1], U(0), U(0)
            for t in range(64):
                word = _word(seed, first + t)
                stored |= U(np.int64(word >= least)) << U(t)
                high |= U(np.int64(word >= most)) << U(t)
            classes[s, 0, h], classes[s, 1, h] = stored | inside, high | inside


@inlined
def _word(seed, token):
    """The upper half of a word of splitmix64 (D-arith-14)."""
    z = U(seed + U(U(token + 1) * STEP))
    z = U(U(z ^ U(z >> U(30))) * FIRST)
    z = U(U(z ^ U(z >> U(27))) * SECOND)
    return np.int64(U(U(z ^ U(z >> U(31))) >> U(32)))
