"""`refemu cost`: the work of a run on a paper's accelerator, by layer and kind."""

import argparse
from typing import Any

from refemu.cli import source
from refemu.cli.output import print_json, print_table
from refemu.cli.progress import progress

COLUMNS = (
    "layer",
    "kind",
    "MACs",
    "index operations",
    "comparisons",
    "conversions",
    "weights",
    "activations",
    "kv",
    "cycles",
)


def run(arguments: argparse.Namespace) -> int:
    """Print the costs; return 0."""
    from refemu import models
    from refemu.models import machine

    model = models.load(arguments.model)
    ids, calibration = source.given_ids(model, arguments), source.calibration_ids(model, arguments)
    with progress() as bar:
        report = machine.cost(
            model,
            arguments.scheme,
            arguments.tokens,
            arguments.phase,
            progress=bar,
            token_ids=ids,
            calibration=calibration,
        )
    if arguments.json:
        print_json("cost", report.as_json())
    else:
        _show(report)
    return 0


def _show(report: Any) -> None:
    step = "the token after a prompt" if report.phase == "decode" else "a prompt"
    title = f"cost of {report.model} under {report.scheme}, {step} of {report.tokens} tokens; words: data moved"
    print_table(title, COLUMNS, [_row(row) for row in report.layers], COLUMNS[3:])


def _row(row: Any) -> list[Any]:
    cost = row.cost
    macs = ", ".join(f"{mode} {count}" for mode, count in cost.macs.items())
    words = [cost.words.get(name, 0) for name in ("weights", "activations", "kv")]
    counts = [cost.index_operations, cost.comparisons, cost.conversions]
    return ["head" if row.layer < 0 else row.layer, row.kind, macs, *counts, *words, cost.cycles]
