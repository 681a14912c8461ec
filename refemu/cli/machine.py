"""`refemu machine`: run a block of a model through the ports of a paper's accelerator, and compare with the scheme."""

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any

from refemu.cli import source
from refemu.cli.options import accelerator
from refemu.cli.output import TIED, print_json, print_table
from refemu.cli.progress import progress

COLUMNS = ("operation", "unit", "shape", "elements", "differing", "cycles", "use", "words")

MEASURED = ("bytes", "busy cycles", "bound by")  #: more columns of a machine with records of work
KINDS = ("kind", "MACs", "index operations", "comparisons", "conversions", "cycles")


def run(arguments: argparse.Namespace) -> int:
    """Print every operation of the block; return 1 if an element differs from the scheme, else 0."""
    from refemu import models
    from refemu.models import machine

    accelerator.require_files(arguments)
    model = models.load(arguments.model)
    ids, calibration = source.given_ids(model, arguments), source.calibration_ids(model, arguments)
    with progress() as bar:
        report = machine.run(
            model,
            arguments.scheme,
            arguments.layer,
            arguments.tokens,
            arguments.phase,
            progress=bar,
            token_ids=ids,
            calibration=calibration,
            options=accelerator.options(arguments),
        )
    source.note_unused(calibration, [arguments.scheme])
    if arguments.json:
        print_json("machine", report.as_json())
    else:
        _show(report)
    title = f"block {report.layer} of {report.model} under {report.scheme}"
    accelerator.save(arguments, report.line, report.system, title)
    return int(report.differing > 0)


def _show(report: Any) -> None:
    step = "the token after a prompt" if report.phase == "decode" else "a prompt"
    title = (
        f"block {report.layer} of {report.model} under {report.scheme}, {step} of {report.tokens} tokens; "
        f"prepared in {report.prepare_seconds:.1f} s"
    )
    measured = {row["name"]: row for row in report.as_json()["operations"]} if report.system else {}
    rows = [_row(operation, measured.get(operation.name, {})) for operation in report.operations]
    columns = COLUMNS + (MEASURED if report.system else ())
    print_table(title, columns, rows, ("elements", "differing", "cycles"))
    kinds = [_by_kind(kind, cost) for kind, cost in report.costs.items()]
    print_table("by kind of work", KINDS, kinds, KINDS[2:])
    absent = [[entry.name, entry.reason] for entry in report.not_on_the_machine]
    print_table("not on the accelerator", ("operation", "reason"), absent)
    unchecked = Counter((operation.unit, ", ".join(operation.unchecked)) for operation in report.operations)
    rows = [[unit, number, names] for (unit, names), number in unchecked.items() if names]
    if rows:
        columns = ("unit", "operations", "outputs")
        print_table("not compared, since the scheme lacks these values", columns, rows, ("operations",))
    counted = [[operation.name, _listed(operation.counts)] for operation in report.operations if operation.counts]
    if counted:
        print_table("counts", ("operation", "counts"), counted)
    _show_blocks(report.operations)
    accelerator.show_total(report.total, report.system)
    print(f"{report.differing} elements differ from the scheme")


def _show_blocks(operations: Any) -> None:
    """Blocks of threads, one a head, and how evenly heads and warps share the work."""
    for operation in operations:
        if not operation.blocks:
            continue
        names = ("head", "tokens", "pages", "loads", "sectors", "expansions", "exponentials")
        rows = []
        for block in operation.blocks:
            warps = " ".join(str(warp["sectors"]) for warp in block["warps"])
            rows.append([*(block[name] for name in names), warps, f"{block['balance']:.2f}"])
        columns = (*names, "sectors by warp", "balance")
        print_table(f"{operation.name}: blocks of threads", columns, rows, names)
        first = operation.blocks[0]
        conflicts = ", ".join(f"{name} {passes}" for name, passes in first["bank_conflicts"].items())
        fit = first["occupancy"]
        rows = [
            ["threads of a block", fit["threads"]],
            ["bytes of shared memory", fit["shared"]],
            ["registers of a thread: accumulators, query", fit["registers"]],
            [
                "blocks on a multiprocessor",
                f"{fit['blocks']}, by {fit['bound']}: {100 * fit['share']:.1f} % of its threads",
            ],
            ["passes of accesses to shared memory", conflicts],
        ]
        print_table("head 0 on an L40", ("quantity", "value"), rows)


def _by_kind(kind: str, cost: Any) -> list[Any]:
    macs = ", ".join(f"{mode} {count}" for mode, count in cost.macs.items())
    return [kind, macs, cost.index_operations, cost.comparisons, cost.conversions, cost.cycles or ""]


def _row(operation: Any, measured: Mapping[str, Any]) -> list[Any]:
    use = ", ".join(f"{part}{TIED}{100 * share:.1f}{TIED}%" for part, share in operation.use.items())
    words = _listed(operation.words)
    shape = " x ".join(str(size) for size in operation.shape)
    sizes = operation.elements, operation.differing, measured.get("cycles", operation.cycles) or ""
    row = [operation.name, operation.unit, shape, *sizes, use, words]
    if not measured:
        return row
    return (
        row + [accelerator.listed(measured.get(name, {})) for name in ("bytes", "busy")] + [measured.get("bound") or ""]
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}{TIED}{count}" for name, count in counts.items())
