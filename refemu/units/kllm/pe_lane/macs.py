"""MACs of a lane: their phases, from the reduction of a tile to its outputs.

Paper: [kllm §III-B, §III-D, §IV-A, Fig. 6]. Composed of fp16_mac.
"""

from functools import cached_property
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.kllm.fp16_mac import ONE, Fp16Mac
from refemu.units.kllm.pe_lane.registers import BIAS, IDLE, MERGE, REDUCE, SCALE, SHIFT, SPARSE, State, Values
from refemu.units.ports import fields, lanes
from refemu.units.stepped import Clocked

NEGATIVE_ZERO = 0x8000  #: word that a product is added to unchanged, zeros of either sign included

Changes = dict[str, Any]  #: fields of a State


class Macs(Clocked[State]):
    """MAC j on column j of the tile under reduction, a phase an edge or more."""

    macs: int
    entries: int

    @cached_property
    def mac_units(self) -> list[Fp16Mac]:
        """The MACs."""
        return [Fp16Mac() for _ in range(self.macs)]

    @cached_property
    def multipliers(self) -> list[Fp16Mac]:
        """The multipliers beside the MACs, which add nothing (D-kllm-44)."""
        return [Fp16Mac() for _ in range(self.macs)]

    def _mac_edge(self, before: State) -> Changes:
        """Work of the MACs in their phase."""
        work = {REDUCE: self._reduce, SPARSE: self._sparse, SCALE: self._scale, MERGE: self._merge}
        work |= {SHIFT: self._subtract, BIAS: self._add_bias}
        if before.phase == IDLE:
            return {}
        return {"mac_cycles": before.mac_cycles + 1, **work[before.phase](before)}

    def _mac(self, j: int, a: int, b: int, acc: int) -> int:
        """Column j: r16(acc + r16(a * b))."""
        return self.mac_units[j].multiply_add(a, b, acc)[1]

    def _reduce(self, before: State) -> Changes:
        """Counts of one index by its entry, every column side by side."""
        counts = fields(before.reducing)[before.address :: self.entries]
        words = self._words(counts)
        acc = list(fields(before.acc))
        for j in range(before.working):
            acc[j] = self._mac(j, words[j], before.entry, acc[j])
        done = before.address == self.entries - 1
        now: Changes = {
            "acc": lanes(tuple(acc)),
            "address": 0 if done else before.address + 1,
            "lookups": before.lookups + before.working,
            "macs_reduce": before.macs_reduce + before.working,
        }
        following = (SPARSE if before.left else SCALE) if before.work_closes else IDLE
        return now | ({"phase": following} if done else {})

    def _words(self, counts: Values) -> list[int]:
        """Counts as fp16 words, rounded (D-kllm-4)."""
        words: list[int] = fp16.bits(fp16.to_f16(np.array(counts, np.int64))).tolist()
        return words

    def _sparse(self, before: State) -> Changes:
        """One product of the sparse path for each column that has one [kllm §III-D]."""
        outside, products, coded = list(fields(before.outside)), 0, 0
        for j in range(before.working):
            if fields(before.sparse)[j]:
                x = self._factor(j, before.work_a_scale, fields(before.x)[j], fields(before.x_coded)[j])
                scale = fields(before.work_b_scale)[j]
                w = self._factor(j, scale, fields(before.w)[j], fields(before.w_coded)[j])
                outside[j] = self._mac(j, x, w, outside[j])
                products, coded = products + 1, coded + fields(before.x_coded)[j] + fields(before.w_coded)[j]
        return {
            "outside": lanes(tuple(outside)),
            "left": before.left - 1,
            "macs_sparse": before.macs_sparse + products,
            "dequants": before.dequants + coded,
            **({"phase": SCALE} if before.left == 1 else {}),
        }

    def _factor(self, j: int, scale: int, word: int, coded: int) -> int:
        """An outlier, or a centroid times its scale, rounded (D-kllm-32)."""
        return self.multipliers[j].multiply_add(scale, word, NEGATIVE_ZERO)[1] if coded else word

    def _scale(self, before: State) -> Changes:
        """Products of the scales (D-kllm-33)."""
        joint = list(fields(before.joint))
        for j in range(before.working):
            joint[j] = self._mac(j, before.work_a_scale, fields(before.work_b_scale)[j], NEGATIVE_ZERO)
        return {
            "joint": lanes(tuple(joint)),
            "phase": MERGE,
            "mults_scale": before.mults_scale + before.working,
        }

    def _merge(self, before: State) -> Changes:
        """Both paths together: r16(outside + r16(acc * joint))."""
        acc, joint, outside = (fields(getattr(before, name)) for name in ("acc", "joint", "outside"))
        y = [self._mac(j, acc[j], joint[j], outside[j]) for j in range(before.working)]
        following = SHIFT if before.work_shifts else BIAS if before.work_biases else IDLE
        return self._outputs(before, y, following) | {"adds_merge": before.adds_merge + before.working}

    def _subtract(self, before: State) -> Changes:
        """LayerNorm's mean over deviation times the sum of the weights (D-kllm-39), before the bias (D-kllm-40)."""
        sums, y = fields(before.work_row_sum), fields(before.y)
        words = [self._mac(j, before.work_shift ^ NEGATIVE_ZERO, sums[j], y[j]) for j in range(before.working)]
        return self._outputs(before, words, BIAS if before.work_biases else IDLE)

    def _add_bias(self, before: State) -> Changes:
        """Biases, as the last term (D-kllm-40)."""
        biases, y = fields(before.work_bias), fields(before.y)
        return self._outputs(before, [self._mac(j, biases[j], ONE, y[j]) for j in range(before.working)], IDLE)

    def _outputs(self, before: State, y: list[int], following: int) -> Changes:
        """Output registers; those of absent columns are 0. Flags and `y_valid` come with the last phase."""
        beyond = [0] * (self.macs - len(y))
        now: Changes = {"y": lanes((*y, *beyond)), "phase": following}
        if following == IDLE:
            flags = [int(word & 0x7C00 == 0x7C00) for word in y]
            now |= {"overflow": lanes((*flags, *beyond)), "y_valid": 1, "overflows": before.overflows + flags.count(1)}
        return now
