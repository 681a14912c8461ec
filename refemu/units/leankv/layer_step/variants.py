"""Variants of the decisions of layer_step, and devices with a faulty stage."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from refemu.arith import fp16
from refemu.units.declaration import constant
from refemu.units.leankv.generation_compressor import A2, A3
from refemu.units.leankv.layer_step import STEP, LayerStep
from refemu.units.leankv.page_manager.variants import Descending
from refemu.units.variant import Variant, choices


class ScoresStay(LayerStep):
    """The attention of a step is not added to the scores of the tokens."""

    def _score(self, head: int, state: Any) -> None:
        pass


class ScoresLate(LayerStep):
    """Scores are added after the next decision, which does not wait for the attention of the previous step."""

    def _score(self, head: int, state: Any) -> None:
        late: dict[int, Any] = vars(self).setdefault("late", {})
        late[head] = state, self._runs(head), self._tokens(head)

    def allocate(self) -> Any:
        for head, (state, runs, stored) in vars(self).pop("late", {}).items():
            self.units[head].add_scores(self.pool, runs, stored, state)
        return super().allocate()


class FirstHeadScores(LayerStep):
    """Only the first query head's probabilities are added to the scores."""

    def _score(self, head: int, state: Any) -> None:
        unit, runs, stored = self.units[head], self._runs(head), self._tokens(head)
        words, positions = unit.scores(self.pool, runs, stored)
        before = np.array(words, np.uint32).view(np.float32)
        p = np.array(state.p, np.uint32).view(np.float32)[: len(before)]
        added = np.where(np.array(positions) == state.newest, before, before + p)
        unit.add_scores(self.pool, runs, stored, replace(state, score=tuple(added.view(np.uint32).tolist())))


class OldestMoves(LayerStep):
    """The oldest token of the window always moves to the low section, before any decision."""

    def _decided(self, head: int, n: int, prompt: int) -> Any:
        decided, unit = super()._decided(head, n, prompt), self.units[head].compressor
        if unit.oldest() >= 0 and unit.low:
            choice = {"victim": unit.oldest(), "low_slot": decided.n_low, "delta_high": 0, "delta_low": 1}
            unit.state = replace(decided, **choice)
        return unit.state


class NewestVictim(LayerStep):
    """A high token that frees a slot is the newest."""

    def _decided(self, head: int, n: int, prompt: int) -> Any:
        decided, unit = super()._decided(head, n, prompt), self.units[head].compressor
        if decided.choice in (A2, A3):
            high = decided.position[: decided.n_high]
            unit.state = replace(decided, victim=high.index(max(high)))
        return unit.state


class CodedLow(LayerStep):
    """New tokens are coded at the low precision."""

    def _of(self, port: str, head: int) -> Any:
        words, low = super()._of(port, head), self.layouts.sections[1].config
        if port not in ("key", "value") or self.state.op != STEP or self.layouts.low is None:
            return words
        fmt = low.key(self.layouts.preset) if port == "key" else low.value(self.layouts.preset)
        values = fmt.encode(fp16.values(np.array(words, np.uint16))).dequantize()
        return tuple(fp16.bits(fp16.narrow(values)).tolist())


class LoadedBackwards(LayerStep):
    """Retained tokens of a prompt take the slots of a section from the last to the first."""

    def _next_slots(self, head: int) -> tuple[int, int]:
        high, low = (kept - 1 - done for kept, done in zip(self._tokens(head), self._loaded(head), strict=True))
        return max(high, 0), max(low, 0)


class LastRequestFirst(LayerStep):
    """The pages of the last request come first."""

    def _members(self) -> list[int]:
        return super()._members()[::-1]


class PromptByPrompt(LayerStep):
    """A prompt frees the pages that it does not need before the next one gets its pages."""

    def _admit(self, manager: Any, prompts: Any) -> None:
        for name, tokens in prompts.items():
            super()._admit(manager, {name: tokens})


class LastHeadFirst(LayerStep):
    """The last head's pages come first."""

    @constant
    def manager(self) -> Descending:
        """A manager with the other order."""
        return Descending(**asdict(self.shape))


VARIANTS: tuple[Variant, ...] = (
    Variant("D-leankv-19", "the first query head alone is scored", unit_class=FirstHeadScores),
    Variant("D-leankv-25", "new tokens are coded at the low precision", unit_class=CodedLow),
    Variant("D-leankv-28", "the newest high token frees its slot", unit_class=NewestVictim),
    Variant("D-leankv-62", "scores of a step are not added", unit_class=ScoresStay),
    Variant("D-leankv-62", "scores are added after the next decision", unit_class=ScoresLate),
    Variant("D-leankv-62", "the oldest token moves before any decision", unit_class=OldestMoves),
    Variant("D-leankv-63", "a prompt fills its slots from the last to the first", unit_class=LoadedBackwards),
    *choices("D-leankv-17", "include_self", True, False),
    *choices("D-leankv-19", "gqa", "mean"),
    *choices("D-leankv-26", "policy", "algorithm1", "diffkv"),
    *choices("D-leankv-34", "lazy_pages", True, False),
    Variant("D-leankv-38", "the last head's pages come first", unit_class=LastHeadFirst),
    *choices("D-leankv-56", "warps", 1, 2, 4),
    *choices("D-leankv-56", "sum_threads", 2, 32),
    *choices("D-leankv-56", "key_threads", 1, 2),
    *choices("D-leankv-56", "value_rows", 1, 2),
    *choices("D-leankv-56", "value_slots", 1, 2),
    *choices("D-leankv-56", "join", "tree", "sequential"),
    Variant("D-leankv-75", "the pages of the last request come first", unit_class=LastRequestFirst),
    Variant("D-leankv-75", "prompts of an event are admitted one by one", unit_class=PromptByPrompt),
)
UNOBSERVABLE: dict[str, str] = {
    "D-leankv-9": "the ports reject NaN and infinity, so no row of a set has them",
    "D-leankv-58": "sectors are counted, but no port shows them",
}
