"""`refemu ppl`: perplexity, so that a change of a parameter can be judged."""

import argparse

from refemu.cli.output import print_json, print_table
from refemu.cli.progress import progress


def run(arguments: argparse.Namespace) -> int:
    """Print the perplexity of a text under a scheme; returns 0."""
    from refemu import models
    from refemu.models import text
    from refemu.models.measure import perplexity

    model = models.load(arguments.model)
    ids = model.tokenizer.encode(text.read(arguments.text) if arguments.text else text.default())[: arguments.tokens]
    with progress() as bar:
        prepared = models.prepare(model, arguments.scheme, progress=bar)
        measured = perplexity.perplexity(prepared, ids, win=arguments.win, prefill=arguments.prefill, progress=bar)
    row = {
        "model": model.name,
        "scheme": arguments.scheme,
        "tokens": len(ids),
        "scored": measured.scored,
        "win": arguments.win,
        "perplexity": measured.perplexity,
    }
    if arguments.json:
        print_json(row)
    else:
        print_table(
            "perplexity",
            list(row),
            [[*list(row.values())[:-1], f"{measured.perplexity:.4f}"]],
            ["tokens", "scored", "win", "perplexity"],
        )
    return 0
