"""Preparation of a decoder under a Harmonia scheme: smoothing factors, then quantized weights [harmonia §III-C]."""

from typing import Any

from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.config import ModelConfig
from refemu.models.model import Model
from refemu.models.schemes import model_share
from refemu.models.schemes.harmonia import search
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.layers import Harmonia
from refemu.models.schemes.scheme import Prepared, Progress


def prepare(config: HarmoniaConfig, model: Model, backend: Backend, calibration: Any, progress: Progress) -> Prepared:
    """Learn or read the factors of offline smoothing, then quantize the weights.

    calibration: token ids, or a `smoothing.Smoothing`; None: the file that the configuration names, else the factors
    that ship with the model, else those learned from the shipped calibration text. The factors of a mix's attention are
    in the weights that its linear parts get (D-mix-2).
    """
    sizes = model.config
    assert isinstance(sizes, ModelConfig)  # `models.prepare` rejects encoders
    if not model_share.attends(model):
        return Harmonia(model, config, backend, progress, search.no_factors(model))
    if config.online and sizes.attention_cap:
        raise Refused(
            f"harmonia: online must be false for {model.name}, got true: offsets of K shift all logits of a query, "
            "and its soft cap does not cancel the shift (D-harmonia-56); use online=false"
        )
    factors = search.obtain(model_share.whole(model), config, backend, calibration, progress)
    return Harmonia(model, config, backend, progress, factors)
