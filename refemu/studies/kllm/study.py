"""Measurements of `refemu study kllm`: perplexity rung by rung [kllm §V-B, Table II; §V-D, Table IV, Fig. 11].

All rungs are calibrated in one run of scheme `fp16` over the calibration text, and judged on another text.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.backend import Backend, find
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes.kllm import calibrate
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.mix.config import Mix
from refemu.models.schemes.scheme import Progress, silent
from refemu.studies import perplexity as scoring

LADDER = ("fp16", "kllm-a4:quantizer=rtn", "kllm-a4-s", "kllm-a4", "kllm-a3-s", "kllm-a3")  #: [kllm Table II]
SHARES = ("0.5", "1", "2", "5", "10")  #: percent of outliers [kllm Table IV]


@dataclass(frozen=True)
class Rung:
    """One scheme on the text."""

    scheme: str
    quantizer: str  #: "fp16", "integers" or "K-Means"
    bits: str  #: of weights and activations: "W4A4"
    outliers: str  #: percent, and how they are found
    perplexity: float
    nll: float
    windows: tuple[float, ...]  #: mean nll of each


def rungs(ladder: Sequence[str] = LADDER, shares: Sequence[str] = SHARES) -> list[str]:
    """The schemes of Table II, then `kllm-a4` with the shares of Table IV that are not there yet."""
    spelled = [schemes.text(schemes.parse(name)) for name in ladder]
    spelled += [schemes.text(schemes.parse(f"kllm-a4:outlier_percent={share}")) for share in shares]
    return list(dict.fromkeys(spelled))


def study(
    model: Model,
    ids: Sequence[int],
    win: int = 512,
    names: Sequence[str] | None = None,
    calibration_tokens: int | None = None,
    backend: "str | Backend" = "jit",
    progress: Progress = silent,
) -> Iterator[Rung]:
    """A rung per scheme of `names` (`rungs()`), in that order.

    ids: token ids to judge on. win: tokens of a window. calibration_tokens: of each calibration window, by default as
    the schemes say. Refuses an encoder.
    """
    if isinstance(model.config, EncoderConfig):
        raise Refused(f"study kllm: {model.name} is an encoder; name a decoder of `refemu models list`")
    engine = find(backend)
    configs = {name: _with(schemes.parse(name), calibration_tokens) for name in names or rungs()}
    trained = _calibrate(model, configs, engine, progress)
    for name, config in configs.items():
        prepared = models.prepare(model, config, engine, trained.get(name), progress)
        score = scoring.perplexity(prepared, ids, win=win, progress=progress)
        yield Rung(name, *_described(config), score.perplexity, score.nll, score.windows)


def _with(config: Any, calibration_tokens: int | None) -> Any:
    if calibration_tokens is None or not isinstance(config, KllmConfig):
        return config
    return dataclasses.replace(config, calibration_tokens=calibration_tokens)


def _calibrate(model: Model, configs: dict[str, Any], backend: Backend, progress: Progress) -> dict[str, Any]:
    """One calibration per K-Means rung; rungs that are trained alike share one."""
    wanted = {
        name: config
        for name, config in configs.items()
        if isinstance(config, KllmConfig) and config.quantizer == "kmeans"
    }
    if not wanted:
        return {}
    keys = {name: tuple(calibrate.described(model, config).items()) for name, config in wanted.items()}
    first = {key: wanted[name] for name, key in reversed(keys.items())}
    trained = dict(zip(first, calibrate.calibrate(model, list(first.values()), backend, None, progress), strict=True))
    return {name: trained[key] for name, key in keys.items()}


def _described(config: Any) -> tuple[str, str, str]:
    if isinstance(config, Mix):
        return "mix", "", ""
    if not isinstance(config, KllmConfig):
        return "fp16", "W16A16", ""
    bits = f"W{config.weight_bits}A{config.act_bits}"
    if config.quantizer == "rtn":
        return "integers", bits, ""
    return "K-Means", bits, f"{config.outlier_percent} {config.thresholds}"
