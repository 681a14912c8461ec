"""`refemu ppl`: the perplexity of a text under a scheme."""

import argparse
import sys
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli import source
from refemu.cli.output import print_json, print_table
from refemu.cli.progress import progress


def run(arguments: argparse.Namespace) -> int:
    """Print the perplexity with its standard error over windows; return 0."""
    from refemu import models
    from refemu.models.scores import score

    model = score.decoder(arguments.model)
    ids = source.ids(model, arguments)[: arguments.tokens]
    if not ids:
        raise Refused(f"{source.named(arguments)}: the text must have at least one token, got none")
    if arguments.windows:
        ids = ids[: arguments.windows * arguments.win]
    calibration = source.calibration_ids(model, arguments)
    with progress() as report:
        found = models.perplexity(
            model,
            ids=ids,
            scheme=arguments.scheme,
            win=arguments.win,
            prefill=arguments.prefill,
            calibration=calibration,
            progress=report,
        )
    origins = source.origins(arguments, ids, calibration)
    if arguments.json:
        print_json("ppl", _row(model, arguments.scheme, found) | origins)
        return 0
    _show(model, arguments, found)
    print("\n".join(source.origin_lines(origins)))
    for note in found.notes:
        print(f"refemu: note: {note}", file=sys.stderr)
    return 0


def _row(model: Any, scheme: str, found: Any) -> dict[str, Any]:
    from refemu.studies.evaluation import seeded

    return {
        "model": model.name,
        "seeded": seeded(model),
        "scheme": scheme,
        "tokens": found.tokens,
        "scored": found.scored,
        "win": found.win,
        "prefill": found.prefill,
        "windows": list(found.windows),
        "perplexity": found.perplexity,
        "error": found.error,
        "equals_fp16": found.equals_fp16,
        "notes": list(found.notes),
    }


def _show(model: Any, arguments: argparse.Namespace, found: Any) -> None:
    from refemu.studies.evaluation import label

    columns = ["model", "scheme", "tokens", "scored", "win", "prefill", "windows", "perplexity", "±"]
    error = "" if found.error is None else f"{found.error:.4f}"
    cells = [label(model), arguments.scheme, found.tokens, found.scored, found.win, found.prefill, len(found.losses)]
    print_table(
        "perplexity, ± standard error over the windows",
        columns,
        [[*cells, f"{found.perplexity:.4f}", error]],
        columns[2:],
    )
    if found.prefill and arguments.prefill is None:
        print(
            f"refemu: note: {arguments.scheme} changes only tokens after a prompt, so the first {found.prefill} tokens "
            "of each window are its prompt; --prefill N chooses another number, and fp16 needs the same to compare",
            file=sys.stderr,
        )
