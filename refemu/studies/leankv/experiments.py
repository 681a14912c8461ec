"""Experiments of `refemu study leankv` as steps: rows of memory and perplexity, critical tokens, scores and norms.

Paper: [leankv §3 Fig. 1-4; §7.2 Table 1, Fig. 7-9; §7.3 Fig. 10, Fig. 11].
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.arith import dot
from refemu.arith.dot import Sequential
from refemu.models import schemes
from refemu.models.runtime import Session
from refemu.models.schemes.fp16.config import Fp16Config
from refemu.models.schemes.leankv.config import LeanKvConfig
from refemu.models.schemes.scheme import Progress
from refemu.models.scores.uncertainty import Change, change
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.leankv import memory, sparsity
from refemu.studies.leankv.memory import BUDGETS, MATCHED, MIXED, PAIRS, Prompts, Row
from refemu.studies.steps import DECODED, Bench, Step, factors

#: dynamic budgets of fp16 tokens: loss by the share of pruned tokens [leankv Fig. 10]
PRUNED = tuple(f"leankv-k16v16:score_rule=cumulative,t_low={share}" for share in ("0.02", "0.05", "0.1", "0.2"))
#: K4V2 and K4V1 by share of tokens at the low one [leankv Fig. 11]
LOWERED = (
    "leankv-k4v2",
    *(f"leankv:high=K4V2,low=K4V1,score_rule=cumulative,t_low=0.0,t_high={share}" for share in ("0.02", "0.1", "0.3")),
    "leankv-k4v1",
)
ROWS = {"pairs": PAIRS, "mixed": MIXED, "budgets": BUDGETS, "sweeps": (*PRUNED, *LOWERED)}
PARTS = (*ROWS, "sparsity", "significance")


def steps(setting: Setting, parts: Sequence[str], listed: Sequence[str] = ()) -> list[Step]:
    """The steps of some of PARTS. listed: schemes instead of the rows of all parts."""
    setting.require_decoder("leankv")
    names = listed or ["fp16", *(name for part in parts if part in ROWS for name in ROWS[part])]
    prompts: Prompts = {}
    return [
        *(_row(setting, name, before, prompts) for name, before in dict.fromkeys(placed(names))),
        *(_sparsity(setting) if "sparsity" in parts else []),
        *(_significance(setting) if "significance" in parts else []),
    ]


def placed(listed: Sequence[str]) -> list[tuple[str, str]]:
    """Every scheme with the scheme before it, whose share of tokens it stores; "" if it has its own budget."""
    return [(name, listed[at - 1] if name == MATCHED and at else "") for at, name in enumerate(listed)]


def row_name(name: str, before: str = "") -> str:
    """The name of the step of a row."""
    return f"{name} as {before}" if before else f"{name}, pages"


def row(results: Mapping[str, Any], name: str, before: str = "") -> Row:
    """The row of a scheme from the results."""
    value = dict(results[row_name(name, before)])
    lists = {field: tuple(value[field]) for field in ("windows", "losses", "payloads")}
    return Row(**{**value, **lists})


def over(item: Row, other: Row) -> Change:
    """The change of the perplexity over that of another row, window by window."""
    return change(other.scheme, item.losses, other.losses)


def _row(setting: Setting, name: str, before: str, prompts: Prompts) -> Step:
    """The row of a scheme for all windows. prompts: computed for other rows."""
    windows = [evaluation.digest(window) for window in setting.windows]
    depends = {"what": "leankv row", "scheme": name, "before": before, "windows": windows, "prefill": setting.prefill}
    decoded = evaluation.token_macs(setting.model, setting.win) - evaluation.token_macs(setting.model, setting.prefill)
    macs = factors(name)[0] * DECODED * decoded * len(windows)
    scheme = schemes.parse(name)
    memory.require_row(name, scheme)
    under = "leankv-k16v16" if isinstance(scheme, LeanKvConfig) else schemes.text(scheme)

    def compute(bench: Bench, progress: Progress) -> Any:
        parts: Any = bench.prepared(schemes.parse(under), progress)  # the same weights for all schemes in pages
        text = (setting.ids, setting.win, setting.prefill)
        if isinstance(scheme, Fp16Config):
            return dataclasses.asdict(memory.plain_row(name, parts, *text))
        if not isinstance(scheme, LeanKvConfig):
            return dataclasses.asdict(memory.measure(under, parts, *text, progress, prompts))
        kept = _kept(bench, _row(setting, before, "", prompts), progress) if before else 1.0
        config = memory.matched(name, kept)
        return dataclasses.asdict(memory.measure(schemes.text(config), parts.under(config), *text, progress, prompts))

    return Step(row_name(name, before), depends, macs, compute, under)


def _kept(bench: Bench, step: Step, progress: Progress) -> float:
    """The share of tokens that a row stores."""
    value = bench.store.get({"model": bench.model.sha256, **step.depends})
    share: float = (step.compute(bench, progress) if value is None else value)["kept"]
    return share


def _prompts(setting: Setting) -> list[tuple[int, ...]]:
    """The prompts of the whole windows."""
    starts = range(0, len(setting.ids), setting.win)
    return [setting.ids[at : at + setting.prefill] for at in starts if 0 < setting.prefill <= len(setting.ids) - at]


def _sparsity(setting: Setting) -> list[Step]:
    """Critical tokens by layer and KV head [leankv Fig. 2, Fig. 3]."""
    prompts = _prompts(setting)
    if not prompts:
        return []

    def compute(bench: Bench, progress: Progress) -> Any:
        layers = sparsity.sparsity(bench.model, setting.ids, setting.win, setting.prefill, bench.backend, progress)
        return [dataclasses.asdict(layer) for layer in layers]

    macs = 1.5 * evaluation.token_macs(setting.model, setting.prefill) * len(prompts)
    depends = {"what": "leankv sparsity", "prompts": [evaluation.digest(ids) for ids in prompts]}
    return [Step("sparsity", depends, macs, compute, "leankv sparsity")]


def _significance(setting: Setting) -> list[Step]:
    """Decades of the average scores of tokens and of the norms of their values, by layer [leankv Fig. 1]."""
    prompts = _prompts(setting)[:1]
    if not prompts:
        return []

    def compute(bench: Bench, progress: Progress) -> Any:
        parts: Any = bench.prepared(schemes.parse("leankv-k16v16"), progress)
        session: Any = Session(parts)
        session.append(prompts[0], last=True)
        prompt = session.caches.current.prompt
        layers = []
        for share, value in zip(prompt.shares, prompt.values, strict=True):
            scores = np.ascontiguousarray(share).view(np.float32).astype(np.float64)[:, :-1]
            wide = value.astype(np.float64)
            norms = np.sqrt(dot.total64(wide * wide, order=Sequential()))
            layers.append({"scores": _decades(scores), "norms": _decades(norms)})
        return layers

    depends = {"what": "leankv significance", "prompts": [evaluation.digest(ids) for ids in prompts]}
    macs = evaluation.token_macs(setting.model, setting.prefill)
    return [Step("significance", depends, macs, compute, "leankv-k16v16")]


def _decades(values: np.ndarray) -> dict[str, Any]:
    """Counts by binary logarithm, in quarters of an octave, and the least and the largest value above 0."""
    positive = np.sort(values[values > 0].ravel(), kind="stable")
    mantissas, exponents = np.frexp(positive)
    within = np.searchsorted(np.array([0.625, 0.75, 0.875]), mantissas, side="right")
    quarters = 4 * (exponents.astype(np.int64) - 1) + within
    places, counts = np.unique(quarters, return_counts=True)
    item, ninety_nine = (float(positive[min(len(positive) - 1, len(positive) * percent // 100)]) for percent in (1, 99))
    return {
        "least": float(positive[0]),
        "most": float(positive[-1]),
        "percentiles": [item, ninety_nine],
        "bins": [[int(place), int(count)] for place, count in zip(places, counts, strict=True)],
    }
