"""Experiments of `refemu study olive` as steps: tensors, experiments of [olive Fig. 3], the ladder of [olive Tbl. 9].

Paper: [olive §2.1 Fig. 2; §2.3 Tbl. 2, Fig. 3; §3.3 Fig. 5; §5.2 Tbl. 9].
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu import models
from refemu.formats.olive import ovp_study
from refemu.models import schemes
from refemu.models.schemes.olive.config import EXPERIMENTS
from refemu.models.schemes.scheme import Progress
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.olive import outliers
from refemu.studies.steps import Bench, Step, weights

LADDER = (
    "fp16",
    "olive-8",
    "olive-8:outliers=false",
    "olive-4",
    "olive-4:outliers=false",
    "olive-4:outliers=false,types=int",
)  #: [olive Tbl. 9]
LOST = ("fp16", *(f"olive-study:experiment={experiment}" for experiment in EXPERIMENTS))  #: [olive Fig. 3]
PARTS = ("weights", "inputs", "losses", "ladder")
ENCODER_PARTS = PARTS[:3]  #: parts of an encoder's study


def steps(setting: Setting, parts: Sequence[str]) -> list[Step]:
    """The steps of some of PARTS."""
    makers = {"weights": _weights, "inputs": _inputs, "losses": _losses, "ladder": _ladder}
    return [step for part in parts for step in makers[part](setting)]


def measured(result: Sequence[Mapping[str, Any]]) -> list[outliers.Measured]:
    """Tensors from the result of a step."""
    return [
        outliers.Measured(
            row["name"], ovp_study.TensorStatistics(**row["tensor"]), ovp_study.PairStatistics(**row["pairs"])
        )
        for row in result
    ]


def _weights(setting: Setting) -> list[Step]:
    def compute(bench: Bench, progress: Progress) -> list[Any]:
        return [dataclasses.asdict(each) for each in outliers.weights(bench.model, progress)]

    return [Step("weights", {"what": "olive weights"}, 60.0 * weights(setting.model), compute)]


def _inputs(setting: Setting) -> list[Step]:
    texts = setting.texts or (setting.ids,)

    def compute(bench: Bench, progress: Progress) -> list[Any]:
        return [dataclasses.asdict(each) for each in outliers.inputs(bench.model, texts, progress)]

    depends = {"what": "olive inputs", "texts": [evaluation.digest(ids) for ids in texts]}
    tokens = len([token for ids in texts for token in ids])
    return [Step("inputs", depends, 2 * evaluation.token_macs(setting.model, tokens), compute, "fp16")]


def _losses(setting: Setting) -> list[Step]:
    if setting.is_encoder:
        return [_distances(setting, scheme) for scheme in LOST]
    return [step for scheme in LOST for step in evaluation.score_steps(setting, scheme)]


def _distances(setting: Setting, scheme: str) -> Step:
    """1 - cosine between the embeddings of every text under a scheme and under `fp16`."""
    texts, config = setting.texts, schemes.parse(scheme)

    def compute(bench: Bench, progress: Progress) -> list[float]:
        changed, plain = (
            [models.embedding(bench.model, ids, bench.prepared(each, progress)).astype(np.float64) for ids in texts]
            for each in (config, schemes.parse("fp16"))
        )
        return [outliers.distance(x, y) for x, y in zip(changed, plain, strict=True)]

    depends = {"what": "olive distances", "scheme": scheme, "texts": [evaluation.digest(ids) for ids in texts]}
    macs = 2 * evaluation.token_macs(setting.model, len(setting.ids))
    return Step(f"{scheme}, embeddings", depends, macs, compute, scheme)


def _ladder(setting: Setting) -> list[Step]:
    if setting.is_encoder:
        return []
    return [step for scheme in LADDER for step in evaluation.score_steps(setting, scheme)]
