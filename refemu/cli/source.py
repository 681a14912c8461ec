"""Input of a command: the text of --text, the token ids of --ids, or the default text."""

import argparse
from typing import Any

from refemu.arith.checks import Refused


def words(arguments: argparse.Namespace) -> str:
    """The text of --text, or the default text."""
    from refemu.models import text

    return text.read(arguments.text) if arguments.text else text.default()


def ids(model: Any, arguments: argparse.Namespace) -> list[int]:
    """The token ids of --ids, or of the text."""
    listed = listed_ids(model, arguments)
    if listed is not None:
        return listed
    tokens: list[int] = model.tokenizer.encode(words(arguments))
    return tokens


def listed_ids(model: Any, arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --ids; None without it. Refused: --ids with --text, and ids outside the vocabulary."""
    if arguments.ids is None:
        return None
    if getattr(arguments, "text", None):
        raise Refused("--ids replaces the text: leave out --text")
    from refemu.models import token_ids

    return token_ids.read(arguments.ids, model.config.vocab)


def calibration_ids(model: Any, arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --calibration-ids; None without it, and schemes then calibrate on the default text."""
    if arguments.calibration_ids is None:
        return None
    from refemu.models import token_ids

    return token_ids.read(arguments.calibration_ids, model.config.vocab)


def named(arguments: argparse.Namespace) -> str:
    """The file that is read; "" for the default text."""
    return str(arguments.ids or getattr(arguments, "text", None) or "")
