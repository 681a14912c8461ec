"""`study leankv`: rows, budgets, thresholds; its figures are those of `perplexity` through the cache."""

from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models import schemes
from refemu.models.schemes.leankv import layout
from refemu.models.scores import perplexity
from refemu.studies.evaluation import Setting
from refemu.studies.leankv import experiments, memory
from refemu.studies.leankv.memory import Row
from tests.models.schemes.leankv.plain import CHANGES
from tests.studies.measured import leankv_rows

IDS = list(b"It is a truth universally acknowledged, that a single man in possession of a good fortune, must want")
PRUNED = f"leankv-k16v16:{CHANGES},window=4,score_rule=cumulative,t_low=0.2"
MIXED = f"leankv:{CHANGES},window=4,t_low=0.02,t_high=0.1"
NAMES = [schemes.text(schemes.parse(name)) for name in ("fp16", f"leankv-k8v8:{CHANGES}", MIXED, PRUNED)]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return leankv_rows(Setting(models.load("tiny"), tuple(IDS), 40, 24), NAMES)


def test_perplexity_is_that_of_sessions(rows: list[Row]) -> None:
    """Windows that run together score what each scores alone, token by token; the last window is shorter."""
    found = {row.scheme: row for row in rows}

    assert list(found) == NAMES
    for name in NAMES:
        one = perplexity.perplexity(models.prepare("tiny", name), IDS, win=40, prefill=24)
        assert (found[name].perplexity, found[name].nll) == (one.perplexity, one.nll)


def test_memory_is_measured_with_all_windows_in_pool(rows: list[Row]) -> None:
    fp16, k8v8, mixed, pruned = rows

    assert (fp16.payload, fp16.kept) == (1.0, 1.0)
    assert (k8v8.payload, k8v8.kept, k8v8.low) == (0.5, 1.0, 0.0)
    assert mixed.kept < 1 and mixed.low > 0
    assert mixed.payload == pytest.approx((mixed.kept - mixed.low) * 0.375 + mixed.low * 0.1875)
    assert pruned.payload == pruned.kept < 1
    assert k8v8.tokens < k8v8.pages
    assert 0 < mixed.read < k8v8.read


@pytest.mark.parametrize("tokens", [80, 70], ids=["equal", "the second ends early"])
def test_memory_of_window_equals_its_own_run(tokens: int) -> None:
    """Requests share no page; the spread is over what each holds at its own end."""
    prepared = models.prepare("tiny", MIXED)
    both = memory.measure(MIXED, prepared, IDS[:tokens], 40, 24)
    alone = [memory.measure(MIXED, prepared, IDS[at : at + 40][: tokens - at], 40, 24) for at in (0, 40)]

    assert list(both.payloads) == [row.payload for row in alone]
    assert both.losses == tuple(row.nll for row in alone)
    assert both.payloads[0] != both.payloads[1]
    assert both.payload_error == pytest.approx(abs(both.payloads[0] - both.payloads[1]) / 2)
    assert alone[0].payload_error is None


def test_changes_are_by_window(rows: list[Row]) -> None:
    fp16, *others = rows

    for row in others:
        change = experiments.over(row, fp16)
        by_window = [100 * (one / other - 1) for one, other in zip(row.windows, fp16.windows, strict=True)]
        assert (change.least, change.most) == pytest.approx((min(by_window), max(by_window)))


def test_matched_budget_is_share_of_row_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """D-leankv-54."""
    matched = f"leankv-k16v16:{CHANGES},window=4,policy=static"
    for module in (memory, experiments):
        monkeypatch.setattr(module, "MATCHED", matched)
    before, row = leankv_rows(Setting(models.load("tiny"), tuple(IDS), 40, 24), [PRUNED, matched])

    assert f"keep_percent={round(100 * before.kept)}" in row.scheme
    assert abs(row.kept - before.kept) < 0.05


def test_the_usual_rows() -> None:
    parsed: list[Any] = [schemes.parse(name) for name in (*memory.PAIRS, *memory.MIXED, *memory.BUDGETS)]

    assert [config.high for config in parsed[:7]] == ["K16V16", "K8V8", "K8V4", "K4V8", "K4V4", "K4V2", "K2V4"]
    assert all(layout.pages(config, 64).high.tokens for config in parsed)
    assert [config.of("policy") for config in parsed[-6:]] == ["algorithm1", "static"] * 3


def test_profile_takes_the_least_memory_within_the_tolerance() -> None:
    """D-leankv-51: the grid, and what the choice depends on.

    On this text the pair of least memory loses 3.6 %, the one before it 7.3 %; the first one loses nothing.
    """
    config: Any = schemes.parse(f"leankv:{CHANGES},window=4")
    text = list(
        b"Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man who, for his own amusement, never "
        b"took up any"
    )
    fp16 = memory.plain_row("fp16", models.prepare("tiny"), text, 40, 24)
    strict, loose = (
        memory.profile(models.load("tiny"), text, config, tolerance, 40, 24, (0.01, 0.2), (0.0, 0.05))
        for tolerance in (0.0, 0.05)
    )
    none = memory.profile(models.load("tiny"), text, config, 0.03, 40, 24, (0.2,), (0.0, 0.05))
    first, middle, least = loose.rows  # 0.05 is above 0.01

    assert strict.reference == loose.reference == none.reference == fp16.perplexity
    assert first.payload > middle.payload > least.payload
    assert [round(row.perplexity / fp16.perplexity - 1, 3) for row in loose.rows] == [-0.06, 0.073, 0.036]
    assert strict.rows == loose.rows and none.rows == (middle, least)
    assert (strict.best, loose.best, none.best) == (first, least, None)


@pytest.mark.parametrize(
    ("prefill", "message"), [(0, "prefill must be at least 1, got 0"), (40, r"prefill must be in \[0, 40\), got 40")]
)
def test_prompts_of_no_or_all_tokens_are_rejected(prefill: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        memory.measure(NAMES[1], models.prepare("tiny", NAMES[1]), IDS, 40, prefill)


def test_encoders_and_negative_tolerances_are_rejected() -> None:
    with pytest.raises(Refused, match="study leankv: tiny-encoder is an encoder"):
        experiments.steps(Setting(models.load("tiny-encoder"), (), 40, 24), experiments.PARTS)
    with pytest.raises(Refused, match="tolerance must be at least 0, got -1"):
        memory.profile(models.load("tiny"), IDS, schemes.parse("leankv"), -1)  # type: ignore[arg-type]
