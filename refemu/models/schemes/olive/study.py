"""Scheme `olive-study`: the effect on a model of losing outliers or their neighbours [olive §2.3, Fig. 3].

Weights of the linear layers and their inputs go through one experiment of `formats.ovp_study`; everything else is
scheme `fp16`, so the difference is due to the experiment. The sigma threshold of an input is frozen on a calibration
text. Every step is inside a token, so a decode step has the bits of the prefill. For encoders and decoders.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16, prng
from refemu.formats.olive import ovp_study
from refemu.models.backend import Backend
from refemu.models.encoder import runtime
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.runtime import Session
from refemu.models.schemes.fp16.decoder import Fp16
from refemu.models.schemes.fp16.encoder import Fp16Encoder
from refemu.models.schemes.fp16.layers import Fp16Layers, columns
from refemu.models.schemes.model_share import Share
from refemu.models.schemes.olive.config import OliveStudyConfig
from refemu.models.schemes.olive.decoder import calibration_ids
from refemu.models.schemes.olive.encoder import batch
from refemu.models.schemes.scheme import Prepared, Progress
from refemu.models.taps import Watch


class StudyLayers(Fp16Layers):
    """Linear layers under scheme `olive-study`, for any kind of model."""

    def __init__(self, model: Model, config: OliveStudyConfig, backend: Backend, progress: Progress) -> None:
        self._study, self._progress = config, progress
        self._limits: dict[tuple[int, tuple[str, ...]], float] = {}
        super().__init__(model, config, backend, progress)

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """The experiment on the input, rounded to fp16; then as in scheme `fp16`, with the changed weights."""
        if self._study.inputs:
            x = self.backend.round16(self._input(layer, tuple(names), x, watch.first_token))
        return super().linear(layer, names, x, watch)

    def _input(self, layer: int, names: tuple[str, ...], x: np.ndarray, first_token: int) -> np.ndarray:
        """Find the threshold of an input; only during `prepare`, before all are frozen."""
        if (layer, names) not in self._limits:
            self._limits[layer, names] = ovp_study.threshold(x, self._study.sigma)
            self._progress("inputs", len(self._limits), len(self._linears))
        name, start = f"blk.{layer}.{names[0]}.input", first_token * x.shape[1]
        return self._change(x, name, self._limits[layer, names], per="row", start=start)

    def _prepare_group(self, model: Model, layer: int, names: Sequence[str]) -> Any:
        weights = {f"blk.{layer}.{name}": model.tensor(f"blk.{layer}.{name}") for name in names}
        if self._study.weights:
            weights = {
                name: self._change(weight, name, ovp_study.threshold(weight, self._study.sigma))
                for name, weight in weights.items()
            }
        rows = [fp16.to_f16(weight) for weight in weights.values()]
        return self.backend.weights(np.concatenate(rows)), columns(rows)

    def _change(
        self, x: np.ndarray, name: str, limit: float, per: ovp_study.Per = "tensor", start: int = 0
    ) -> np.ndarray:
        """The experiment on `x`; values beyond `limit` are outliers."""
        seed = prng.stream(f"olive-study/{name}", self._study.seed)
        if self._study.experiment == "clip":
            return ovp_study.clip_outliers(x, limit)
        if self._study.experiment == "prune_victims":
            return ovp_study.prune_victims(x, limit)
        return ovp_study.prune_normals(x, seed, limit, start, per)


class OliveStudy(StudyLayers, Fp16):
    """A decoder under scheme `olive-study`."""

    def settle(self, model: Model, source: Any, runner: Prepared) -> None:
        """`calibrate` as a part of the mix `runner`. source: token ids, or None."""
        if self._study.inputs:
            self.calibrate(model, calibration_ids(self._study, model, source), runner)

    def thaw(self) -> None:
        """Drop the thresholds."""
        self._limits.clear()

    def calibrate(self, model: Model, ids: Sequence[int], runner: Prepared | None = None) -> None:
        """Find the outlier threshold of every input on one sequence of tokens.

        runner: the mix that this is a part of.
        """
        if self._study.inputs and len(self._limits) < len(self._linears):
            Session(runner or self).append(ids, last=True)


class OliveStudyEncoder(StudyLayers, Fp16Encoder):
    """An encoder under scheme `olive-study`; texts encoded together have consecutive token numbers."""


def prepare(
    config: OliveStudyConfig, model: Model, backend: Backend, calibration: Any, progress: Progress
) -> OliveStudy | OliveStudyEncoder:
    """Change the weights, then find the outlier threshold of every input on the calibration tokens.

    calibration: token ids; for an encoder those of one text, or of several. `settle` does it for a part of a mix.
    """
    if isinstance(model.config, EncoderConfig):
        texts = batch(config, model, calibration)
        encoder = OliveStudyEncoder(model, config, backend, progress)
        if config.inputs:
            runtime.encode(encoder, texts)
        return encoder
    decoder = OliveStudy(model, config, backend, progress)
    if not isinstance(model, Share):
        decoder.calibrate(model, calibration_ids(config, model, calibration))
    return decoder
