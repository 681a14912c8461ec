"""`refemu generate-text`: continue a text under a scheme."""

import argparse
import sys
from typing import Any

from refemu.arith.checks import Refused
from refemu.cli import source
from refemu.cli.output import print_json
from refemu.cli.progress import progress


def run(arguments: argparse.Namespace) -> int:
    """Print the prompt's continuation; return 0."""
    from refemu import models
    from refemu.models import engine
    from refemu.models.scores import score
    from refemu.models.sequences.generation import DEFAULT_PROMPT

    model = score.decoder(arguments.model)
    if arguments.prompt is not None:
        if arguments.text or arguments.ids:
            raise Refused("--prompt replaces the text: leave out --text and --ids")
        arguments.read_text = arguments.prompt
    ids = source.ids(model, arguments)
    if not ids:
        raise Refused("generate-text: the prompt must have at least one token, got none; give a text")
    if arguments.prompt is None and not source.named(arguments):
        ids = ids[:DEFAULT_PROMPT]
    calibration = source.calibration_ids(model, arguments)
    with progress() as report:
        generated = models.generate_text(
            model,
            ids=ids,
            scheme=arguments.scheme,
            tokens=arguments.tokens,
            backend=engine.backend_of(models.schemes.parse(arguments.scheme), model, len(ids) + arguments.tokens),
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            seed=arguments.seed,
            calibration=calibration,
            progress=report,
        )
    source.note_unused(calibration, [arguments.scheme])
    if arguments.json:
        print_json("generate-text", _document(arguments, generated) | source.origins(arguments, ids, calibration))
        return 0
    print(generated.text if generated.text else " ".join(map(str, generated.ids)))
    counts = f"{len(generated.prompt)} tokens read, {len(generated.ids)} generated"
    print(f"refemu: {counts}, {generated.tokens_per_second:.1f} a second", file=sys.stderr)
    return 0


def _document(arguments: argparse.Namespace, generated: Any) -> dict[str, Any]:
    return {
        "model": generated.model,
        "scheme": arguments.scheme,
        "temperature": arguments.temperature,
        "top_k": arguments.top_k,
        "seed": arguments.seed,
        "prompt_ids": list(generated.prompt),
        "ids": list(generated.ids),
        "generated": generated.text,
        "seconds": generated.seconds,
        "tokens_per_second": generated.tokens_per_second,
    }
