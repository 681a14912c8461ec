"""Tables and figures of `refemu study leankv`, with the paper's values.

Paper: [leankv §3 Fig. 1-4; §7.2 Table 1, Fig. 7-9; §7.3 Fig. 10, Fig. 11].
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refemu.models.scores.uncertainty import spread
from refemu.studies import evaluation
from refemu.studies.evaluation import Setting
from refemu.studies.leankv import experiments
from refemu.studies.leankv.experiments import LOWERED, PRUNED, ROWS, placed, row
from refemu.studies.leankv.memory import BUDGETS, MATCHED, MIXED, PAIRS, Row
from refemu.studies.output import scores
from refemu.studies.output.figure import Figure, Panel, Series
from refemu.studies.output.table import (
    CHANGE,
    CHANGE_ERROR,
    ERROR,
    PERPLEXITY,
    WINDOWS,
    Column,
    Table,
)

FIGURES = {
    "fig1": "significance",
    "fig2": "sparsity",
    "fig3": "sparsity",
    "fig4": "mixed",
    "fig7": "pairs",
    "fig8": "budgets",
    "fig9": "mixed",
    "fig10": "sweeps",
    "fig11": "sweeps",
}
#: other parts whose rows a figure shows
ALSO = {"fig4": ("pairs", "budgets"), "fig9": ("pairs", "budgets")}
#: memory over vLLM in percent, without loss and at 5 % loss, mean of five benchmarks [leankv Table 1]
STATED = {
    "Llama2-7B": ((18.9, 22.8, 23.1, 21.2, 21.6), (11.3, 11.5, 18.9, 14.6, 7.6)),
    "Llama3-8B": ((20.7, 26.7, 26.6, 24.1, 20.0), (9.4, 20.6, 22.1, 12.8, 8.8)),
    "Mistral-7B": ((26.8, 28.9, 23.0, 26.2, 19.4), (17.7, 13.6, 15.1, 15.9, 9.7)),
}

_ROWS = (
    Column("part", "text", "", "part of the study"),
    Column("scheme", "text", "scheme", "as `--scheme` takes it"),
    Column("kept", "number", "tokens stored", "tokens stored at the end", "%", 1),
    Column("low", "number", "low", "tokens stored at the low precision", "%", 1),
    Column("codes", "number", "codes", "codes, relative to fp16 keys and values", "%"),
    Column("codes_error", "number", "±", "its standard error over the windows", "%"),
    Column("metadata", "number", "with metadata", "codes, scales, scores and positions", "%"),
    Column("pages", "number", "pages", "whole pages", "%"),
    Column("read", "number", "read", "bytes that the steps read", "%"),
    PERPLEXITY,
    ERROR,
    WINDOWS,
    CHANGE,
    CHANGE_ERROR,
)
_SPARSE = (
    Column("layer", "integer", "layer", "block"),
    Column("mean", "number", "tokens", "share of the visible tokens that carries 95 % of a query's attention", "%", 1),
    Column("error", "number", "±", "standard error over the prompts", "%", 1),
    Column("least", "number", "least prompt", "mean of a prompt", "%", 1),
    Column("most", "number", "largest", "mean of a prompt", "%", 1),
    Column("least_head", "number", "least KV head", "mean over the prompts", "%", 1),
    Column("most_head", "number", "largest", "mean over the prompts", "%", 1),
)
_SPANS = (
    Column("layer", "integer", "layer", "block"),
    Column("scores", "number", "scores", "decades from the 1st to the 99th percentile of the tokens' scores"),
    Column("norms", "number", "norms", "the same for the norms of their values"),
)


def tables(
    setting: Setting, results: Mapping[str, Any], parts: Sequence[str], listed: Sequence[str] = ()
) -> list[Table]:
    """The tables of some parts. listed: schemes instead of the rows."""
    output = []
    groups = {"schemes": tuple(listed)} if listed else {part: ROWS[part] for part in ROWS if part in parts}
    if groups:
        output.append(_rows(setting, results, groups))
    if "sparsity" in parts and "sparsity" in results:
        title = f"tokens that a query needs, {setting.label} [leankv Fig. 2, 3]"
        output.append(Table("sparsity", title, _SPARSE, tuple(map(_sparse, results["sparsity"]))))
    if "significance" in parts and "significance" in results:
        title = f"decades of scores and norms, {setting.label}, one prompt [leankv Fig. 1]"
        spans = [
            (place, _span(layer["scores"]), _span(layer["norms"]))
            for place, layer in enumerate(results["significance"])
        ]
        output.append(Table("significance", title, _SPANS, tuple(spans)))
    return output


def _rows(setting: Setting, results: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> Table:
    listed, reference = [], None
    for part, names in groups.items():
        for name, before in placed(("fp16", *names) if part != "schemes" and reference is None else names):
            scored = row(results, name, before)
            reference = scored if reference is None else reference
            listed.append(_row(part, scored, reference))
    title = f"KV cache in pages, percent of fp16 [leankv Table 1, Fig. 4-11]: {scores.about(setting)}"
    return Table("rows", title, _ROWS, tuple(listed))


def _row(part: str, scored: Row, reference: Row) -> tuple[Any, ...]:
    change = None if scored is reference else experiments.over(scored, reference)
    error = spread(scored.losses).error
    shares = (scored.kept, scored.low, scored.payload)
    return (
        part,
        scored.scheme,
        *(100 * share for share in shares),
        None if scored.payload_error is None else 100 * scored.payload_error,
        *(100 * share for share in (scored.tokens, scored.pages, scored.read)),
        scored.perplexity,
        None if error is None else scored.perplexity * error,
        len(scored.windows),
        None if change is None else change.percent,
        None if change is None else change.error,
    )


def _sparse(layer: Mapping[str, Any]) -> tuple[Any, ...]:
    each = spread([100 * share for share in layer["prompts"]])
    heads = _heads(layer)
    return (
        layer["layer"],
        each.mean,
        each.error,
        each.least,
        each.most,
        min(item.mean for item in heads),
        max(item.mean for item in heads),
    )


def _heads(layer: Mapping[str, Any]) -> list[Any]:
    """Spread over the prompts of every KV head, in percent."""
    return [spread([100 * share for share in shares]) for shares in zip(*layer["heads"], strict=True)]


def _span(decades: Mapping[str, Any]) -> float:
    low, high = decades["percentiles"]
    return float(np.log10(high / low))


def figures(setting: Setting, results: Mapping[str, Any], names: Sequence[str]) -> list[Figure]:
    """Some of FIGURES."""
    makers = {
        "fig1": _fig1,
        "fig2": _fig2,
        "fig3": _fig3,
        "fig4": _fig4,
        "fig7": _fig7,
        "fig8": _fig8,
        "fig9": _fig9,
        "fig10": _fig10,
        "fig11": _fig11,
    }
    needs = {"fig1": "significance", "fig2": "sparsity", "fig3": "sparsity"}
    return [makers[name](setting, results) for name in names if needs.get(name, "fp16, pages") in results]


def _shown(count: int) -> tuple[int, ...]:
    """A layer at the beginning, in the middle and at the end."""
    return tuple(dict.fromkeys((0, count // 2, count - 1)))


def _fig1(setting: Setting, results: Mapping[str, Any]) -> Figure:
    layers = results["significance"]
    panels = []
    for place in _shown(len(layers)):
        series = []
        for name, label in (("scores", "average attention score"), ("norms", "norm of the value")):
            bins = layers[place][name]["bins"]
            total = evaluation.mean_of([float(count) for _, count in bins]) * len(bins)
            counts = dict(bins)
            span = range(min(counts), max(counts) + 2)
            series.append(
                Series(
                    label,
                    tuple((1 + at % 4 / 4) * float(np.ldexp(1.0, at // 4)) for at in span),
                    tuple(100 * counts.get(at, 0) / total for at in span),
                )
            )
        panels.append(
            Panel(f"Layer {place}", "score or norm (log)", "% of the tokens", tuple(series), "steps", log_x=True)
        )
    return Figure(
        "fig1",
        "[leankv Fig. 1]",
        "Scores span more decades than norms of values",
        tuple(panels),
        f"{setting.label}, one prompt of {setting.prefill} tokens, all KV heads. The paper's text: "
        "scores span seven orders of magnitude, norms at most two, on Llama3-8B [leankv §3.1].",
    )


def _fig2(setting: Setting, results: Mapping[str, Any]) -> Figure:
    each = [spread([100 * share for share in layer["prompts"]]) for layer in results["sparsity"]]
    series = scores.series("mean ± standard error over the prompts", [float(place) for place in range(len(each))], each)
    panel = Panel("", "layer", "% of the tokens a query sees", (series,), "lines", y_range=(0, 100))
    return Figure(
        "fig2", "[leankv Fig. 2]", "Tokens that carry 95 % of the attention, by layer", (panel,), _sparse_about(setting)
    )


def _sparse_about(setting: Setting) -> str:
    return (
        f"{setting.label}, the last 64 queries of {len(setting.windows)} prompts of "
        f"{setting.prefill} tokens, counted query by query. The paper sums over all queries of a prompt, on Llama3-8B, "
        "and states no numbers."
    )


def _fig3(setting: Setting, results: Mapping[str, Any]) -> Figure:
    panels = []
    for place in _shown(len(results["sparsity"])):
        heads = _heads(results["sparsity"][place])
        series = scores.series("heads", [f"head {index}" for index in range(len(heads))], heads)
        panels.append(Panel(f"Layer {place}", "% of the tokens", "", (series,), x_range=(0, 110)))
    return Figure(
        "fig3",
        "[leankv Fig. 3]",
        "Tokens that carry 95 % of the attention, by KV head",
        tuple(panels),
        _sparse_about(setting) + " ± standard error over the prompts.",
    )


def _changes(results: Mapping[str, Any], names: Sequence[str], labels: Sequence[str]) -> tuple[Series, Series]:
    """Memory and change of the perplexity over `fp16` of some schemes, as bars."""
    scored = [row(results, *each) for each in placed(names)]
    memory = Series("codes", tuple(labels), tuple(100 * item.payload for item in scored))
    return memory, _loss(results, "perplexity", labels, scored)


def _loss(
    results: Mapping[str, Any], label: str, places: Sequence[float] | Sequence[str], scored: Sequence[Row]
) -> Series:
    """Changes of the perplexity over `fp16`."""
    reference = row(results, "fp16")
    return scores.series(label, places, [experiments.over(item, reference) for item in scored])


def _fig4(setting: Setting, results: Mapping[str, Any]) -> Figure:
    names = ("fp16", "leankv-k8v8", "leankv-k16v16:score_rule=cumulative,t_low=0.02", MIXED[4])
    labels = ("fp16", "8 bits", "fp16, pruned", "8 bits, pruned")
    memory, loss = _changes(results, names, labels)
    stated = Series("normalized", labels, (100.0, 50.0, 80.0, 40.0), source="20 % pruned, of codes [leankv §3.3]")
    return Figure(
        "fig4",
        "[leankv Fig. 4]",
        "Quantizing and pruning",
        (
            Panel("Memory", "codes, % of fp16", "", (memory, stated)),
            Panel("Loss", "perplexity over that of fp16, %", "", (loss,)),
        ),
        f"{scores.about(setting)} Pruned by T_l = 2 % of cumulative shares. The paper prunes about 20 % and finds "
        "ROUGE-1 nearly the same in all four; 80 and 40 % follow from that share.",
    )


def _fig7(setting: Setting, results: Mapping[str, Any]) -> Figure:
    names = [name for name in PAIRS if name != "leankv-k16v16"]
    labels = [name.partition(":")[0].removeprefix("leankv-").upper() for name in names]
    _, loss = _changes(results, names, labels)
    k8v4, k4v8 = row(results, "leankv-k8v4"), row(results, "leankv-k4v8")
    gap = experiments.over(k4v8, k8v4)
    error = "" if gap.error is None else f" ± {gap.error:.1f}"
    panel = Panel(
        "", "perplexity over that of fp16, % (log; below 0.1 % at 0.1)", "", (_floored(loss),), log_x=True, base=0.1
    )
    return Figure(
        "fig7",
        "[leankv Fig. 7]",
        "Keys matter more than values",
        (panel,),
        f"{scores.about(setting)} K4V8 is {gap.percent:.1f}{error} % above K8V4, paired by window. The paper's text, "
        "in accuracy of fp16: K8V4 preserves it, K4V8 loses noticeably; on SQuAD K4V2 has 94.7 to 99.4 %, K2V4 28.2 to "
        "60.0 [leankv §7.2].",
    )


def _floored(series: Series) -> Series:
    """Values for a logarithmic axis that begins at 0.1."""
    return Series(series.label, series.x, tuple(max(value, 0.1) for value in series.y), series.error)


def _fig8(setting: Setting, results: Mapping[str, Any]) -> Figure:
    kinds: dict[str, list[Row]] = {"a budget for every head": [], "equal budgets": []}
    for name, before in placed(BUDGETS):
        kinds["equal budgets" if name == MATCHED else "a budget for every head"].append(row(results, name, before))
    series = tuple(
        _loss(results, label, [100 * item.kept for item in scored], scored) for label, scored in kinds.items()
    )
    panel = Panel("fp16 tokens", "% of the tokens stored", "perplexity over that of fp16, %", series, "lines")
    return Figure(
        "fig8",
        "[leankv Fig. 8]",
        "Dynamic and static sparsity",
        (panel,),
        f"{scores.about(setting)} The paper's text: dynamic sparsity is far better on reasoning, slightly on SQuAD, "
        "the same on CNN-DailyMail [leankv §7.2].",
    )


def _fig9(setting: Setting, results: Mapping[str, Any]) -> Figure:
    groups = {
        "K8V4 with K4V2, pruned": [(name, "") for name in MIXED[:4]],
        "one precision": [(name, "") for name in PAIRS if name not in ("leankv-k2v4:k_group=2", "leankv-k4v8")],
        "pruning alone, equal budgets (H2O)": [each for each in placed(BUDGETS) if each[0] == MATCHED],
    }
    series = []
    for label, names in groups.items():
        scored = sorted((row(results, *each) for each in names), key=lambda item: item.payload)
        series.append(_loss(results, label, [100 * item.payload for item in scored], scored))
    top = max(value for item in series for value in item.y)
    stated = []
    for name, loss in (("without loss", 0.0), ("5 % loss", 5.0)):
        values = [evaluation.mean_of(list(pair[loss > 0])) for pair in STATED.values()]
        stated.append(
            Series(
                name,
                tuple(values),
                (loss,) * len(values),
                source="mean of a 7 or 8 B model [leankv Table 1]",
                form="points",
            )
        )
    panel = Panel(
        "",
        "codes, % of fp16 keys and values",
        "perplexity over that of fp16, %",
        (*series, *stated),
        "lines",
        y_range=(-4, max(8.0, 1.15 * top)),
    )
    return Figure(
        "fig9",
        "[leankv Fig. 9, Table 1]",
        "Memory and loss",
        (panel,),
        f"{scores.about(setting)} The paper's loss is of accuracy, on Llama2-7B, Llama3-8B and Mistral-7B.",
    )


def _fig10(setting: Setting, results: Mapping[str, Any]) -> Figure:
    scored = [row(results, name) for name in PRUNED]
    series = _loss(results, setting.label, [100 * (1 - item.kept) for item in scored], scored)
    panel = Panel("fp16 tokens", "% of the tokens pruned", "perplexity over that of fp16, %", (series,), "lines")
    return Figure(
        "fig10",
        "[leankv Fig. 10]",
        "Sensitivity to pruning",
        (panel,),
        f"{scores.about(setting)} The paper compares Llama2-7B, which loses least, Llama3-8B and Llama3-70B; its "
        "text states no numbers.",
    )


def _fig11(setting: Setting, results: Mapping[str, Any]) -> Figure:
    scored = [row(results, name) for name in LOWERED]
    share = [0.0, *(100 * item.low for item in scored[1:-1]), 100.0]
    series = _loss(results, setting.label, share, scored)
    panel = Panel(
        "K4V2 with K4V1",
        "% of the tokens at K4V1",
        "perplexity over that of fp16, % (log)",
        (series,),
        "lines",
        log_y=True,
    )
    return Figure(
        "fig11",
        "[leankv Fig. 11]",
        "Sensitivity to low-bit quantization",
        (panel,),
        f"{scores.about(setting)} The paper's text: Llama3-70B stays near the baseline with 60 % of the tokens in "
        "K4V1; smaller models lose noticeably even when all are in K4V2 [leankv §7.3].",
    )
