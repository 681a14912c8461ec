"""Experiments of `refemu study kllm` as steps: rungs of the ladder, centroids of two texts, comparisons of Orizuru.

Paper: [kllm §II-A2 Fig. 2; §IV-C; §V-B Table II; §V-D Table IV, Fig. 11].
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from refemu.arith import fp16, fp32
from refemu.arith.checks import Refused
from refemu.arith.dot import Sequential
from refemu.formats.kllm.kmeans_outliers import TopK
from refemu.formats.kllm.kmeans_train import train
from refemu.models import schemes, text
from refemu.models.schemes.kllm import calibrate, calibration
from refemu.models.schemes.kllm.config import KllmConfig
from refemu.models.schemes.scheme import Progress
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.steps import Bench, Step

LADDER = ("fp16", "kllm-a4:quantizer=rtn", "kllm-a4-s", "kllm-a4", "kllm-a3-s", "kllm-a3")  #: [kllm Table II]
SHARES = ("0.5", "1", "2", "5", "10")  #: percent of outliers [kllm Table IV]
#: integers, K-Means, K-Means with sample weights, and Orizuru [kllm Fig. 11]
BREAKDOWN = ("kllm-a3:quantizer=rtn", "kllm-a3-s:weight_sensitivity=none", "kllm-a3-s", "kllm-a3")
PARTS = ("ladder", "shares", "breakdown", "centroids", "orizuru")
WINDOW, PAIRS = 128, 8  #: tokens of a window of [kllm Fig. 2], windows of each text
SIZES = tuple(1 << bits for bits in range(4, 13))  #: inputs of Orizuru


def share(percent: str) -> str:
    """`kllm-a4` with another percentage of outliers."""
    return schemes.text(schemes.parse(f"kllm-a4:outlier_percent={percent}"))


def names(part: str) -> list[str]:
    """The schemes of a part that compares perplexities."""
    return {"ladder": list(LADDER), "shares": [share(each) for each in SHARES], "breakdown": list(BREAKDOWN)}[part]


def steps(setting: Setting, parts: Sequence[str], listed: Sequence[str] = (), tokens: int | None = None) -> list[Step]:
    """The steps of some of PARTS. listed: schemes instead of a ladder. tokens: length of a calibration window."""
    setting.require_decoder("kllm")
    ladder = [name for part in parts if part in ("ladder", "shares", "breakdown") for name in names(part)]
    texts = list(dict.fromkeys(schemes.text(with_tokens(name, tokens)) for name in listed or ladder))
    source = Calibrations([config for config in map(schemes.parse, texts) if isinstance(config, KllmConfig)])
    scores = [step for name in texts for step in evaluation.score_steps(setting, name, source.of)]
    return [
        *scores,
        *(_centroids(setting) if "centroids" in parts else []),
        *(_orizuru() if "orizuru" in parts else []),
    ]


def with_tokens(name: str, tokens: int | None) -> Any:
    """The configuration of a scheme with calibration windows of this length."""
    config = schemes.parse(name)
    if tokens is None or not isinstance(config, KllmConfig):
        return config
    return dataclasses.replace(config, calibration_tokens=tokens)


class Calibrations:
    """Calibrations of several configurations; those that are not saved are trained in one run and saved."""

    def __init__(self, configs: Sequence[KllmConfig]) -> None:
        self._configs = [config for config in configs if config.quantizer == "kmeans"]

    def __repr__(self) -> str:
        return f"Calibrations({len(self._configs)} configurations)"

    def of(self, bench: Bench, config: Any, progress: Progress) -> calibration.Calibration | None:
        """The calibration of one of the configurations, or None."""
        if not isinstance(config, KllmConfig) or config.quantizer != "kmeans" or config.calibration is not None:
            return None
        saved = _load(bench, config)
        if saved is not None:
            return saved
        todo = {str(_key(bench, other)): other for other in self._configs if _load(bench, other) is None}
        trained = calibrate.calibrate(bench.model, list(todo.values()), bench.backend, bench.calibration, progress)
        for other, result in zip(todo.values(), trained, strict=True):
            bench.store.write(_path(bench, other), result.to_bytes())
        return dict(zip(todo, trained, strict=True))[str(_key(bench, config))]


def _key(bench: Bench, config: KllmConfig) -> dict[str, Any]:
    windows = calibrate.cut(bench.model, config, bench.calibration)
    return {
        "what": "kllm calibration",
        **calibrate.described(bench.model, config),
        "windows": [evaluation.digest(window) for window in windows],
    }


def _path(bench: Bench, config: KllmConfig) -> Any:
    return bench.store.path(_key(bench, config), ".npz")


def _load(bench: Bench, config: KllmConfig) -> calibration.Calibration | None:
    try:
        return calibration.load(_path(bench, config))
    except Refused:
        return None


def _centroids(setting: Setting) -> list[Step]:
    """[kllm Fig. 2]: inputs of the first q_proj, pairs of windows of the text and of the calibration text."""
    online = np.array(setting.ids)
    offline = np.array(setting.model.tokenizer.encode(text.calibration()))
    count = min(PAIRS, len(online) // WINDOW, len(offline) // WINDOW)
    if not count or setting.model.config.unlike_llama:  # type: ignore[union-attr]
        return []

    def compute(bench: Bench, progress: Progress) -> Any:
        pairs = []
        for index in range(count):
            progress("centroids", index, count)
            some = slice(index * WINDOW, (index + 1) * WINDOW)
            pairs.append([_of_window(_inputs(bench, each[some])) for each in (online, offline)])
        return pairs

    depends = {
        "what": "kllm centroids",
        "ids": [evaluation.digest(each[: count * WINDOW]) for each in (online, offline)],
    }
    return [Step("centroids", depends, 2e10 * count, compute)]


def _inputs(bench: Bench, ids: np.ndarray) -> np.ndarray:
    sizes: Any = bench.model.config
    embed, gain = (fp16.round16(bench.model.tensor(name)) for name in ("embed", "blk.0.attn_norm"))
    rows: np.ndarray = fp16.round16(fp32.rmsnorm(embed[ids], gain, float(sizes.rms_eps), Sequential()))
    return rows


def _of_window(x: np.ndarray) -> dict[str, list[float]]:
    """16 centroids of all values, of those without outliers, and the threshold of every token."""
    rule = TopK("1")
    inliers = x[~rule.mask(x)]
    return {
        "all": [float(each) for each in train(x.ravel(), bits=4).centroids],
        "inliers": [float(each) for each in train(inliers, bits=4).centroids],
        "thresholds": [float(each) for each in np.sort(x, axis=1, kind="stable")[:, -rule.count(x.shape[1])]],
    }


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Root of the mean square of the difference."""
    return math.sqrt(evaluation.mean_of([(x - y) * (x - y) for x, y in zip(a, b, strict=True)]))


def _orizuru() -> list[Step]:
    """Comparisons counted by the unit, with 1 % of the inputs popped, half of them on each side."""

    def compute(bench: Bench, progress: Progress) -> Any:
        from refemu.units.kllm.orizuru import compiled as orizuru_compiled

        rows = []
        for place, size in enumerate(SIZES):
            progress("orizuru", place, len(SIZES))
            k = TopK("1").count(size)
            values = fp16.narrow(fp16.round16((np.arange(size) * 7919 % 10007 - 5000).astype(np.float32)))
            rows.append({"inputs": size, "k": k, "comparisons": int(orizuru_compiled.pops(values, k).comparisons)})
        return rows

    return [Step("orizuru", {"what": "orizuru comparisons", "sizes": list(SIZES)}, 1e8, compute)]
