"""Preparation of a decoder under a Harmonia scheme: smoothing factors, then quantized weights [harmonia §III-C]."""

from typing import Any

from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.harmonia import search
from refemu.models.schemes.harmonia.config import HarmoniaConfig
from refemu.models.schemes.harmonia.layers import Harmonia
from refemu.models.schemes.scheme import Prepared, Progress
from refemu.models.schemes.share import Share


def prepare(config: HarmoniaConfig, model: Model, backend: Backend, calibration: Any, progress: Progress) -> Prepared:
    """Learn or read the factors of offline smoothing, then quantize the weights.

    calibration: token ids, or a `smoothing.Smoothing`; None stands for the file that the configuration names, for the
    factors that ship with the model, or for the shipped calibration text.
    """
    if isinstance(model.config, EncoderConfig):
        raise Refused(f"harmonia: {model.name} is an encoder; the paper's caches need a decoder")
    _require_no_cap(config, model)
    smoothing = search.obtain(model, config, backend, calibration, progress)
    return Harmonia(model, config, backend, progress, smoothing)


def _require_no_cap(config: HarmoniaConfig, model: Model) -> None:
    """Refuse offsets of K in front of a soft cap."""
    sizes: Any = model.config
    if config.online and sizes.attention_cap:
        raise Refused(
            f"harmonia: offsets of K shift all logits of a query, which the soft cap of {model.name} does not leave "
            "without effect; use online=false (D-harmonia-56)"
        )


def part(
    config: HarmoniaConfig, model: Share, backend: Backend, calibration: Any, progress: Progress, behind: Any
) -> Any:
    """Prepare a part of a mix: its attention with factors as above, its linear layers with none of their own.

    The factors of the attention are in the weights that linear parts get (D-mix-2). behind: not used.
    """
    factors = search.no_factors(model)
    if model.attends:
        _require_no_cap(config, model)
        factors = search.obtain(model.whole, config, backend, calibration, progress)
    return Harmonia(model, config, backend, progress, factors)
