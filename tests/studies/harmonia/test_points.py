"""The points of the study, one after the other; factors are learned once."""

import math
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.harmonia import search
from refemu.studies import perplexity
from refemu.studies.harmonia import points

IDS = list(b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire")


def test_points_are_those_of_the_figures() -> None:
    """[harmonia Fig. 4, 5, 8, 10; Tables I, II]"""
    names = list(points.POINTS.values())
    bits = [(config.act_mantissa, config.high, config.low) for config in map(schemes.parse, names[1:])]  # type: ignore

    assert names[0] == "fp16" and len(set(names)) == len(names) == 14
    assert bits[:7] == [(8, 8, 8), (6, 6, 6), (5, 5, 5), (4, 4, 4), (8, 6, 6), (8, 5, 5), (8, 4, 4)]
    assert bits[7:] == [(8, 8, 8), (8, 4, 4), *[(8, 8, 4)] * 4]


def test_a_point_is_the_perplexity_of_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["fp16", "harmonia-kv4", "harmonia-kv4:online=false", "harmonia-kv4-naive"]
    runs: list[Any] = []
    learn = search.learn

    def counted(model: Any, config: Any, *rest: Any) -> Any:
        runs.append(config.calib_tokens)
        return learn(model, config, *rest)

    monkeypatch.setattr(search, "learn", counted)
    found = list(points.study(models.load("tiny"), IDS, 32, names, calibration_tokens=40))
    monkeypatch.undo()

    assert runs == [40]
    assert [(point.meaning, point.scheme) for point in found] == [("", name) for name in names]
    assert found[3].perplexity == perplexity.perplexity(models.prepare("tiny", names[3]), IDS, win=32).perplexity
    assert len({point.nll for point in found}) == 4
    assert [len(point.windows) for point in found] == [-(-len(IDS) // 32)] * 4
    assert all(min(point.windows) < point.perplexity < max(point.windows) for point in found)


def test_points_are_held_against_references_before_them() -> None:
    """Paired by window: the change of a point is that of its windows' own perplexities."""
    names = ["harmonia-kv4-naive", "harmonia-kv8", "fp16", "harmonia-kv4:offline=false"]
    naive, kv8, fp16, online = points.study(models.load("tiny"), IDS, 26, names)

    assert [[one.scheme for one in point.changes] for point in (naive, kv8, fp16)] == [[], [], ["harmonia-kv8"]]
    assert [one.scheme for one in online.changes] == ["harmonia-kv8", "fp16"]
    for change, other in zip(online.changes, (kv8, fp16), strict=True):
        ratios = [100 * (mine / its - 1) for mine, its in zip(online.windows, other.windows, strict=True)]
        logs = [math.log(mine / its) for mine, its in zip(online.windows, other.windows, strict=True)]
        assert (change.least, change.most) == pytest.approx((min(ratios), max(ratios)))
        assert change.percent == pytest.approx(100 * math.expm1(sum(logs) / 2))
        assert change.error == pytest.approx(100 * math.exp(sum(logs) / 2) * abs(logs[0] - logs[1]) / 2)
    assert online.error == pytest.approx(online.perplexity * abs(online.losses[0] - online.losses[1]) / 2)


def test_without_references_the_first_point_is_one() -> None:
    first, second = points.study(models.load("tiny"), IDS, 64, ["harmonia-kv4-naive", "harmonia-kv4:offline=false"])

    assert (first.changes, first.error) == ((), None)
    assert [(one.scheme, one.error) for one in second.changes] == [("harmonia-kv4-naive", None)]


def test_windows_can_be_decoded() -> None:
    [prompt] = points.study(models.load("tiny"), IDS, 50, ["harmonia-kv8"])
    [decoded] = points.study(models.load("tiny"), IDS, 50, ["harmonia-kv8"], prefill=40)

    assert prompt.nll != decoded.nll


def test_encoders_are_refused() -> None:
    with pytest.raises(Refused, match="study harmonia: tiny-encoder is an encoder"):
        list(points.study(models.load("tiny-encoder"), IDS))
