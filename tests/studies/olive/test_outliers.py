"""The study of a model: its rows are means over tensors that a loop gives too; the measured figures of real models."""

from statistics import mean, median
from typing import Any

import numpy as np
import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import text
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.olive import experiments, outliers
from tests.oracles.olive import ovp_study
from tests.studies.measured import measured

IDS = list(b"She was only Anne. ")


def percent(row: outliers.Summary) -> list[float]:
    """> 3 sigma, N-N, O-N, O-O, O-O if independent, as olive's tables round them."""
    shares = (row.beyond_three, row.normal_normal, row.outlier_normal)
    return [
        *(round(100 * share, 3) for share in shares),
        *(round(100 * share, 4) for share in (row.outlier_outlier, row.independent)),
    ]


def spread(found: list[outliers.Measured]) -> list[tuple[float, float]]:
    """Least and most of N-N, O-N and O-O pairs by tensor, in percent, and of the maxima in sigma."""
    columns = *zip(*(one.pairs.shares for one in found), strict=True), [one.tensor.max_sigma / 100 for one in found]
    return [(round(100 * min(column), 3), round(100 * max(column), 3)) for column in columns]


def small(found: list[outliers.Measured]) -> tuple[int, float, int]:
    """Tensors with less than 0.5 % beyond 3 sigma, the median share in percent, those with O-O pairs below 0.06 %."""
    beyond = [one.tensor.beyond_three for one in found]
    few = [one.pairs.outlier_outlier / one.pairs.pairs < 0.0006 for one in found]
    return sum(share < 0.005 for share in beyond), round(100 * median(beyond), 3), sum(few)


def test_rows_are_means_over_tensors() -> None:
    """[olive Tbl. 2, Fig. 2]: every tensor counts once."""
    model = models.load("tiny")
    names = [f"blk.{layer}.gate" for layer in range(3)]
    rows = [model.tensor(name).tolist() for name in names]
    counts = [ovp_study.pairs(tensor) for tensor in rows]
    maxima = [max(abs(value) for row in tensor for value in row) / ovp_study.sigma(tensor) for tensor in rows]
    found = outliers.summary("gate", outliers.by_kind(outliers.weights(model), "all")["gate"])

    assert (found.tensors, found.max_sigma_median, found.max_sigma_largest) == (3, median(maxima), max(maxima))
    # means of three quotients in float64 against exact ones: within three roundings
    assert abs(found.outlier_normal - mean(count[1] / sum(count) for count in counts)) < 1e-15
    assert abs(found.outlier_outlier - mean(count[2] / sum(count) for count in counts)) < 1e-15
    assert abs(found.beyond_six - mean(ovp_study.shares(tensor)[1] for tensor in rows)) < 1e-15


def test_every_linear_weight_and_every_input_is_measured() -> None:
    model = models.load("tiny")
    weights, inputs = outliers.weights(model), outliers.inputs(model, [IDS])
    kinds = list(outliers.by_kind(inputs, "all inputs"))

    assert [one.name for one in weights[:8]] == [
        f"blk.{n}" for n in ("0.q", "0.k", "0.v", "0.o", "0.gate", "0.up", "0.down", "1.q")
    ]
    assert len(weights) == 21 and len(inputs) == 12
    assert kinds == ["q.input", "o.input", "gate.input", "down.input", "all inputs"]


def test_inputs_are_what_the_layers_read() -> None:
    prepared = models.prepare("tiny")
    x = prepared.norm("blk.0.attn_norm", prepared.embed(np.array(IDS)))

    assert outliers.inputs(models.load("tiny"), [IDS])[0] == outliers.measure("blk.0.q.input", x)
    assert outliers.inputs(models.load("tiny"), [IDS])[0].tensor.count == len(IDS) * 64


def test_one_format_has_least_error_per_normal_type() -> None:
    """[olive Fig. 5], D-olive-45."""
    rows = outliers.rounding_errors(outliers.weights(models.load("tiny")))
    least = {row["normal"]: row["outlier"] for row in rows if row["least"]}

    assert len(rows) == 8
    assert least == {"int4": "e2m1_bias2", "flint4": "e2m1_bias3"}


def test_a_decoder_takes_one_text() -> None:
    with pytest.raises(Refused, match="study: tiny is a decoder, so there must be one text, got 2"):
        outliers.inputs(models.load("tiny"), [IDS, IDS])


def test_progress_ends_at_the_whole() -> None:
    seen: list[tuple[str, int, int]] = []
    outliers.weights(models.load("tiny"), lambda *words: seen.append(words))

    assert (seen[0], seen[-1]) == (("weights", 0, 21), ("weights", 21, 21))


def test_empty_tensor_lists_are_rejected() -> None:
    with pytest.raises(Refused, match="study: all: at least one tensor is needed, got none"):
        outliers.summary("all", [])


def test_outliers_repr() -> None:
    recorder = outliers.Recorder(models.prepare("tiny"), lambda *words: None)

    assert repr(recorder) == f"Recorder({models.prepare('tiny')!r}, 0 inputs)"


@pytest.mark.slow
@pytest.mark.model
def test_pairs_of_smollm2(smollm2: Any) -> None:
    """[olive Tbl. 2]: about 99 % normal-normal, 1 % outlier-normal, below 0.06 % outlier-outlier pairs."""
    found = outliers.weights(smollm2)
    row = outliers.summary("all", found)

    assert row.tensors == 210
    assert percent(row) == [0.693, 98.640, 1.333, 0.0267, 0.0057]
    assert [round(row.max_sigma_median, 1), round(row.max_sigma_largest, 1)] == [11.2, 51.3]
    assert spread(found) == [(96.861, 99.432), (0.524, 2.962), (0.001, 0.192), (4.682, 51.311)]
    assert small(found) == (60, 0.615, 185)
    least = [row["outlier"] for row in outliers.rounding_errors(found) if row["least"]]
    assert least == ["e2m1_bias2", "e2m1_bias3"]


@pytest.mark.model
def test_pairs_of_minilm(minilm: Any) -> None:
    """[olive Tbl. 2, Fig. 2]; unlike in [olive Fig. 5] E3M0 is best: the largest maximum is 175 sigma."""
    found = outliers.weights(minilm)
    last, row = (outliers.summary(*group) for group in list(outliers.by_kind(found, "all").items())[-2:])

    assert (row.tensors, last.tensors, last.kind) == (36, 6, "down")
    assert percent(row) == [0.682, 98.657, 1.322, 0.0215, 0.0050]
    assert percent(last) == [0.775, 98.488, 1.474, 0.0385, 0.0062]
    assert [round(row.max_sigma_median, 1), round(row.max_sigma_largest, 1)] == [7.1, 174.7]
    assert [round(last.max_sigma_median, 1), round(last.max_sigma_largest, 1)] == [86.6, 174.7]
    assert spread(found) == [(97.782, 99.193), (0.8, 2.169), (0, 0.102), (5.196, 174.719)]
    assert small(found) == (8, 0.706, 35)
    assert [round(one["error"], 1) for one in outliers.rounding_errors(found)[:4]] == [15.5, 13.9, 9.4, 4.4]


@pytest.mark.long
@pytest.mark.model
def test_clipping_outliers_hurts_most_on_minilm(minilm: Any) -> None:
    """[olive Fig. 3]: clipping >> pruning victims >= pruning as many normal values, in what embeddings lose."""
    read = evaluation.paragraphs(minilm, text.default(), 600, 128)
    setting = Setting(minilm, sum(read, ()), 128, texts=read)
    results = measured(experiments.steps(setting, ("losses",)), setting)
    none, clip, victims, normals = (mean(results[f"{name}, embeddings"]) for name in experiments.LOST)

    assert none == 0
    assert clip > 5 * victims
    assert victims >= normals > 0
