"""Decoders under schemes `olive-4` and `olive-8`: linear layers as integer matmuls of pairs [olive §3.4, §4].

Weights have one scale per output row and one type per tensor, inputs one static scale and type per tensor. Both come
from the search of `formats.ovp_search`, for inputs on a calibration text [D-olive-23, D-olive-29, D-olive-31]. Sums are
exact integers reduced to 32 bits [D-olive-33]; y = fl32(fl32(acc) * fl32(s_a * s_w)), rounded to fp16 [D-olive-42].
Everything else is scheme `fp16` [D-olive-32]. Scales are static and pairs are inside a token, so a decode step has the
bits of the prefill.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from refemu.arith.checks import Refused
from refemu.models import text
from refemu.models.backend import Backend
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes import model_share
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.model_share import Share
from refemu.models.schemes.olive.config import OliveConfig, OliveStudyConfig
from refemu.models.schemes.olive.layers import HEAD_LAYER, Observing, OliveLayers
from refemu.models.schemes.olive.linear import Part, Plain, Weight
from refemu.models.schemes.scheme import Prepared, Progress, silent
from refemu.models.taps import Watch

if TYPE_CHECKING:
    from refemu.models.schemes.olive.encoder import OliveEncoder


def calibration_ids(config: OliveConfig | OliveStudyConfig, model: Model, ids: Sequence[int] | None) -> list[int]:
    """Tokens to calibrate on: `ids`, or for None the first of the shipped calibration text."""
    if ids is None:
        ids = model.tokenizer.encode(text.calibration())[: config.calibration_tokens]
    if len(ids) == 0:
        raise Refused("olive: act_bits needs calibration tokens, got none")
    return list(ids)[: model.config.context]


class Olive(OliveLayers, Fp16):
    """A decoder under an OliVe scheme."""

    @staticmethod
    def calibration(config: OliveConfig, model: Model, ids: Sequence[int] | None) -> list[int]:
        """Tokens for `calibrate`: `ids`, or for None the first of the shipped calibration text."""
        return calibration_ids(config, model, ids)

    def head(self, x: np.ndarray, watch: Watch) -> np.ndarray:
        """Logits, never rounded to fp16; as in scheme `fp16` unless the output matrix is quantized."""
        (part,) = self.head_parts()
        return self.outputs(part, x, watch)

    def settle(self, model: Model, source: Any, runner: Prepared) -> None:
        """`calibrate` as a part of the mix `runner`. source: token ids, or None."""
        if self._olive.act_bits:
            self.calibrate(model, calibration_ids(self._olive, model, source), runner)

    def thaw(self) -> None:
        """Drop the frozen inputs."""
        for part in self.parts():
            part.input = None

    def calibrate(self, model: Model, ids: Sequence[int], runner: Prepared | None = None) -> None:
        """Freeze the scale and type of every linear input, in model order, on one sequence of tokens.

        runner: the mix that this is a part of; its other parts freeze their inputs as well. Only results without a mix
        are cached.
        """
        if all(part.input is not None for part in self.parts()):
            return

        def run() -> None:
            sequential = self._olive.calibration == "sequential"
            whole = Observer(model_share.whole(model), self) if not sequential else runner or self
            Session(whole).append(ids, last=all(isinstance(part, Plain) for part in self.head_parts()))

        if isinstance(model, Share):
            run()
        else:
            self.search_inputs([ids], run)

    def _prepare_head(self, model: Model) -> Part | Plain:
        return self._prepare_group(model, HEAD_LAYER, ("embed" if self.model.tied_head else "head",))[0]

    def head_parts(self) -> Sequence[Part | Plain]:
        return [] if self._head is None else [self._head]


class Observer(Observing, Fp16):
    """A decoder under scheme `fp16` that freezes the inputs of an OliVe scheme."""

    def __init__(self, model: Model, target: Olive) -> None:
        super().__init__(model, Fp16Config(), target.backend, silent)
        self._target = target

    def head(self, x: np.ndarray, watch: Watch) -> np.ndarray:
        """As in scheme `fp16`, after the input `x` is frozen."""
        for part in self._target.parts()[-1:]:
            self._target.freeze(part, x)
        return super().head(x, watch)


def prepare(
    config: OliveConfig, model: Model, backend: Backend, calibration: Any, progress: Progress
) -> "Olive | OliveEncoder":
    """Search and encode the weights, then search the scales of the inputs on the calibration tokens.

    calibration: token ids; for an encoder those of one text, or of several. `settle` freezes the inputs of a part of a
    mix later.
    """
    if isinstance(model, Share):
        return Olive(model, config, backend, progress, {})
    kind: Any = Olive
    if isinstance(model.config, EncoderConfig):
        from refemu.models.schemes.olive.encoder import OliveEncoder

        kind = OliveEncoder
    ids = kind.calibration(config, model, calibration) if config.act_bits else []
    store: dict[tuple[str, int], Weight] = {}
    prepared: Olive | OliveEncoder = kind(model, config, backend, progress, store)
    prepared.calibrate(model, ids)
    wider = prepared.wider(model)
    if wider is not None:
        wider.calibrate(model, ids)
    return wider or prepared
