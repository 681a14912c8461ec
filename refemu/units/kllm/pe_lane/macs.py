"""MACs of a lane: their phases, from the reduction of a tile to its outputs.

Paper: [kllm §III-B, §III-D, §IV-A, Fig. 6]. Composed of fp16_mac.
"""

from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.declaration import DeclaredState, Sequential, constant, decides
from refemu.units.kllm.fp16_mac import ONE, Fp16Mac
from refemu.units.kllm.pe_lane.registers import BIAS, IDLE, MERGE, SCALE, SHIFT, SPARSE, LaneSizes

NEGATIVE_ZERO = 0x8000  #: word that changes no product added to it, zeros of either sign included

Changes = dict[str, Any]  #: registers by value, increments of counters
Values = tuple[int, ...]


class Macs(LaneSizes, Sequential):
    """MAC j on column j of the tile under reduction; a method for each phase returns the changes of an edge."""

    @constant
    def mac_units(self) -> list[Fp16Mac]:
        """The MACs."""
        return [Fp16Mac() for _ in range(self.macs)]

    @constant
    @decides("D-kllm-44")
    def multipliers(self) -> list[Fp16Mac]:
        """The multipliers next to the MACs, which do not add."""
        return [Fp16Mac() for _ in range(self.macs)]

    def _mac(self, j: int, a: int, b: int, acc: int) -> int:
        """Column j: r16(acc + r16(a * b))."""
        return self.mac_units[j].multiply_add(a, b, acc)[1]

    def idle(self, before: DeclaredState) -> Changes:
        """Do nothing: no stage has work."""
        return {}

    def reduce(self, before: DeclaredState) -> Changes:
        """Multiply counts of one index by its codebook entry and add them, in every column of the tile."""
        counts = before.reducing[before.address :: self.entries]
        words = self._words(counts)
        acc = list(before.acc)
        for j in range(before.working):
            acc[j] = self._mac(j, words[j], before.entry, acc[j])
        done = before.address == self.entries - 1
        now: Changes = {
            "acc": tuple(acc),
            "address": 0 if done else before.address + 1,
            "lookups": before.working,
            "macs_reduce": before.working,
        }
        following = (SPARSE if before.left else SCALE) if before.work_closes else IDLE
        return now | ({"phase": following} if done else {})

    @decides("D-kllm-4")
    def _words(self, counts: Values) -> list[int]:
        """Counts as fp16 words, rounded."""
        words: list[int] = fp16.bits(fp16.to_f16(np.array(counts, np.int64))).tolist()
        return words

    @decides("D-kllm-32", "D-kllm-44")
    def sparse(self, before: DeclaredState) -> Changes:
        """Add a product at an outlier, in each column that has one."""
        outside, products, coded = list(before.outside), 0, 0
        for j in range(before.working):
            if before.sparse[j]:  # [kllm §III-D]
                x = self._factor(j, before.work_a_scale, before.x[j], before.x_coded[j])
                scale = before.work_b_scale[j]
                w = self._factor(j, scale, before.w[j], before.w_coded[j])
                outside[j] = self._mac(j, x, w, outside[j])
                products, coded = products + 1, coded + before.x_coded[j] + before.w_coded[j]
        now: Changes = {"outside": tuple(outside), "left": before.left - 1}
        now |= {"macs_sparse": products, "dequants": coded}
        return now | ({"phase": SCALE} if before.left == 1 else {})

    @decides("D-kllm-32")
    def _factor(self, j: int, scale: int, word: int, coded: int) -> int:
        """An outlier, or a centroid times its scale, rounded."""
        return self.multipliers[j].multiply_add(scale, word, NEGATIVE_ZERO)[1] if coded else word

    @decides("D-kllm-33")
    def scale(self, before: DeclaredState) -> Changes:
        """Multiply the scales of A and of each column."""
        joint = list(before.joint)
        for j in range(before.working):
            joint[j] = self._mac(j, before.work_a_scale, before.work_b_scale[j], NEGATIVE_ZERO)
        return {"joint": tuple(joint), "phase": MERGE, "mults_scale": before.working}

    @decides("D-kllm-33", "D-kllm-40")
    def merge_(self, before: DeclaredState) -> Changes:
        """Join both sums: r16(outside + r16(acc * joint))."""
        acc, joint, outside = (getattr(before, name) for name in ("acc", "joint", "outside"))
        y = [self._mac(j, acc[j], joint[j], outside[j]) for j in range(before.working)]
        following = SHIFT if before.work_shifts else BIAS if before.work_biases else IDLE
        return self._outputs(before, y, following) | {"adds_merge": before.working}

    @decides("D-kllm-39", "D-kllm-40")
    def shift(self, before: DeclaredState) -> Changes:
        """Subtract the mean over deviation times the sum of the weights, for LayerNorm."""
        sums, y = before.work_row_sum, before.y
        words = [self._mac(j, before.work_shift ^ NEGATIVE_ZERO, sums[j], y[j]) for j in range(before.working)]
        return self._outputs(before, words, BIAS if before.work_biases else IDLE)

    @decides("D-kllm-40")
    def bias(self, before: DeclaredState) -> Changes:
        """Add biases, as the last term."""
        biases, y = before.work_bias, before.y
        return self._outputs(before, [self._mac(j, biases[j], ONE, y[j]) for j in range(before.working)], IDLE)

    def _outputs(self, before: DeclaredState, y: list[int], following: int) -> Changes:
        """Output registers, 0 for absent columns. Flags and `y_valid` come with the last phase."""
        beyond = [0] * (self.macs - len(y))
        now: Changes = {"y": (*y, *beyond), "phase": following}
        if following == IDLE:
            flags = [int(word & 0x7C00 == 0x7C00) for word in y]
            now |= {"overflow": (*flags, *beyond), "y_valid": 1, "overflows": flags.count(1)}
        return now
