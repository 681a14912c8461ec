"""`refemu cost`: the work of a run on a paper's accelerator, by layer and kind, and its total."""

import argparse
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli import source
from refemu.cli.options import accelerator
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
MEASURED = ("bytes", "busy cycles", "bound by")  #: more columns of a machine with records of work
TOKENS, SHAPE_TOKENS = 16, 2048  #: default tokens with --model and with --shape


def run(arguments: argparse.Namespace) -> int:
    """Print the costs; return 0."""
    accelerator.require_files(arguments)
    reports = _of_shapes(arguments) if arguments.shape else [_of_model(arguments)]
    if arguments.json:
        plain = [report.as_json() for report in reports]
        print_json("cost", plain[0] if len(plain) == 1 else {"runs": plain})
    else:
        for report in reports:
            _show(report)
    _save(arguments, reports[-1])
    return 0


def _of_model(arguments: argparse.Namespace) -> Any:
    from refemu import models
    from refemu.models import machine

    tokens = arguments.tokens or [TOKENS]
    if len(tokens) > 1 or arguments.batch:
        raise Refused("cost: --batch and several --tokens need --shape; give one number of tokens with --model")
    model = models.load(arguments.model)
    ids, calibration = source.given_ids(model, arguments), source.calibration_ids(model, arguments)
    source.note_unused(calibration, [arguments.scheme])
    with progress() as bar:
        return machine.cost(
            model,
            arguments.scheme,
            tokens[0],
            arguments.phase,
            progress=bar,
            token_ids=ids,
            calibration=calibration,
            options=accelerator.options(arguments),
        )


def _of_shapes(arguments: argparse.Namespace) -> list[Any]:
    from refemu.models import machine

    if arguments.ids or arguments.calibration_ids:
        raise Refused("cost: --shape has no weights and reads no tokens; leave out --ids and --calibration-ids")
    return [
        machine.of_shape(
            arguments.shape,
            arguments.scheme,
            tokens,
            arguments.phase,
            arguments.batch or 1,
            accelerator.options(arguments),
        )
        for tokens in arguments.tokens or [SHAPE_TOKENS]
    ]


def _save(arguments: argparse.Namespace, report: Any) -> None:
    lines = [line for section, line in zip(report.sections, report.lines, strict=False) if section.layer >= 0]
    accelerator.save(arguments, lines[0] if lines else [], report.system, f"block 0 of {_title(report)}")


def _title(report: Any) -> str:
    step = "the token after a prompt" if report.phase == "decode" else "a prompt"
    requests = f"{report.batch} requests, " if report.batch > 1 else ""
    return f"{report.model} under {report.scheme}, {requests}{step} of {report.tokens} tokens"


def _show(report: Any) -> None:
    columns = COLUMNS + (MEASURED if report.system else ())
    rows = [_row(row, report) for row in report.layers]
    print_table(f"cost of {_title(report)}; words: data moved", columns, rows, COLUMNS[3:])
    absent = [[entry.name, entry.reason] for entry in report.not_on_the_machine]
    if absent:
        print_table("not on the accelerator", ("operation", "reason"), absent)
    accelerator.show_total(report.total, report.system)


def _row(row: Any, report: Any) -> list[Any]:
    cost, measured = row.cost, report.measured(row)
    macs = ", ".join(f"{mode} {count}" for mode, count in cost.macs.items())
    words = [cost.words.get(name, 0) for name in ("weights", "activations", "kv")]
    counts = [cost.index_operations, cost.comparisons, cost.conversions]
    cycles = measured["cycles"] if measured else cost.cycles
    shown = [["head" if row.layer < 0 else _layers(row), row.kind, macs, *counts, *words, cycles or ""]]
    if report.system:
        shown += [[accelerator.listed(measured[name]) if measured else "" for name in ("bytes", "busy")]]
        shown += [[measured.get("bound") or ""]]
    return [cell for part in shown for cell in part]


def _layers(row: Any) -> str:
    return str(row.layer) if row.count == 1 else f"{row.count} x {row.layer}-{row.layer + row.count - 1}"
