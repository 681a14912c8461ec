"""Experiments of `refemu study leankv`: rows, critical tokens by head, decades of scores and norms."""

import re
from pathlib import Path
from typing import Any

import pytest

from refemu import models
from refemu.arith.checks import Refused
from refemu.models.backend import Jit
from refemu.models.schemes.leankv.engine import Engine
from refemu.models.scores import perplexity
from refemu.studies import steps
from refemu.studies.evaluation import Setting
from refemu.studies.leankv import experiments, memory, sparsity
from refemu.studies.results import ResultStore
from refemu.studies.steps import Bench
from tests.studies.measured import leankv_rows

SMALL = "leankv:k_vec=1,v_group=2,window=4,score_rule=cumulative,t_low=0.05,t_high=0.2"
NAMES = ("fp16", "leankv-k16v16:k_vec=1,v_group=2,window=4,score_rule=cumulative,t_low=0.2", memory.MATCHED, SMALL)


@pytest.fixture
def setting() -> Setting:
    return Setting(models.load("tiny"), tuple(i * 5 % 251 for i in range(32)), 16, 12)


def bench(folder: Path) -> Bench:
    return Bench(models.load("tiny"), Jit(), ResultStore("leankv", folder))


def test_equal_budget_is_share_of_row_before(setting: Setting) -> None:
    """D-leankv-54; also before a mix."""
    mixed = ("fp16", f"olive-4:calibration_tokens=64+{NAMES[1]}", memory.MATCHED)
    for names in (NAMES, mixed):
        _, before, matched, *_ = leankv_rows(setting, names)
        assert matched.scheme == f"{memory.MATCHED},keep_percent={round(100 * before.kept)}" and before.kept < 1
        alone = perplexity.perplexity(models.prepare("tiny", matched.scheme), setting.ids, 16, 12)
        assert matched.losses == alone.windows


def test_later_equal_budget_uses_the_saved_row(setting: Setting, tmp_path: Path) -> None:
    place = bench(tmp_path)
    steps.run(experiments.steps(setting, (), NAMES[:2]), place)
    run = steps.run(experiments.steps(setting, (), NAMES[:3]), bench(tmp_path))

    assert (run.measured, run.found) == (1, 2)


def test_prompts_are_computed_once_for_all_rows(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count: list[int] = []
    prompt = Engine._prompt
    monkeypatch.setattr(Engine, "_prompt", lambda engine, name: count.append(name) or prompt(engine, name))
    steps.run(experiments.steps(setting, (), NAMES), bench(tmp_path))

    assert len(count) == 2  # windows


@pytest.mark.parametrize("backwards", [False, True])
def test_mixes_share_no_prompt_with_other_linear_layers(setting: Setting, tmp_path: Path, backwards: bool) -> None:
    """Rows equal those of separate engines, in either order; fp16 linear layers with pages are the scheme itself."""
    names = (SMALL, f"fp16+{SMALL}", f"olive-4:calibration_tokens=64+{SMALL}", f"harmonia-kv8+{SMALL}")
    listed = names[::-1] if backwards else names
    results = steps.run(experiments.steps(setting, (), listed), bench(tmp_path)).results
    rows = {name: experiments.row(results, name) for name in names}

    for name in names:
        prepared = models.prepare("tiny", name)
        alone = memory.measure(name, prepared, setting.ids, 16, 12)
        assert (rows[name].losses, rows[name].payloads, rows[name].read) == (alone.losses, alone.payloads, alone.read)
    assert rows[names[1]].losses == rows[SMALL].losses
    assert len({row.losses for row in rows.values()}) == 3


@pytest.mark.parametrize("name", ["olive-4", "olive-4+fp16", "fp16+fp16"])
def test_schemes_without_pages_are_rejected_before_measuring(name: str, setting: Setting) -> None:
    with pytest.raises(
        Refused, match=rf"schemes must be fp16, leankv\* or mixes with leankv\* attention, got '{re.escape(name)}'"
    ):
        experiments.steps(setting, (), ("fp16", name))


def test_sparsity_has_every_prompt_and_head(setting: Setting, tmp_path: Path) -> None:
    layers: Any = steps.run(experiments.steps(setting, ("sparsity",)), bench(tmp_path)).results["sparsity"]
    direct = sparsity.sparsity(setting.model, setting.ids, 16, 12)

    for layer, row in zip(layers, direct, strict=True):
        assert layer["prompts"] == list(row.prompts) and len(row.prompts) == 2
        heads = setting.model.config.kv_heads  # type: ignore[union-attr]
        assert [len(prompt) for prompt in layer["heads"]] == [heads] * 2
        for mean, each in zip(row.prompts, row.heads, strict=True):
            assert sum(each) / heads == pytest.approx(mean)


def test_decades_count_every_value_once(setting: Setting, tmp_path: Path) -> None:
    layers: Any = steps.run(experiments.steps(setting, ("significance",)), bench(tmp_path)).results["significance"]
    heads = setting.model.config.kv_heads  # type: ignore[union-attr]

    for layer in layers:
        assert sum(count for _, count in layer["norms"]["bins"]) == 12 * heads
        assert sum(count for _, count in layer["scores"]["bins"]) <= 11 * heads  # the newest token has no score
        for decades in layer.values():
            low, high = decades["percentiles"]
            assert 0 < decades["least"] <= low <= high <= decades["most"]
            first, last = (
                2.0 ** (at // 4) * (1 + at % 4 / 4) for at in (decades["bins"][0][0], decades["bins"][-1][0])
            )
            assert first <= decades["least"] and last <= decades["most"] < 2 * last


def test_parts_name_the_schemes_of_the_figures(setting: Setting) -> None:
    listed = experiments.steps(setting, experiments.PARTS)

    assert len(listed) == len({step.name for step in listed}) == 26
    assert [name for name, before in experiments.placed(memory.BUDGETS) if before] == [memory.MATCHED] * 3
