"""Input of a command: the text of --text, the token ids of --ids, or the text that refemu ships."""

import argparse
from typing import Any

from refemu.arith.checks import Refused


def words(arguments: argparse.Namespace) -> str:
    """The text of --text, or the shipped one."""
    from refemu.models import text

    return text.read(arguments.text) if arguments.text else text.default()


def ids(model: Any, arguments: argparse.Namespace) -> list[int]:
    """Token ids: those of --ids as they are, or those of the text as the model's tokenizer makes them."""
    listed = listed_ids(model, arguments)
    if listed is not None:
        return listed
    tokens: list[int] = model.tokenizer.encode(words(arguments))
    return tokens


def listed_ids(model: Any, arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --ids; None without it. Refused: --text beside it, and ids outside the vocabulary."""
    if arguments.ids is None:
        return None
    if getattr(arguments, "text", None):
        raise Refused("--ids takes the place of a text: leave out --text")
    from refemu.models import token_ids

    return token_ids.read(arguments.ids, model.config.vocab)


def calibration_ids(model: Any, arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --calibration-ids; None without it: schemes that calibrate then read the shipped text."""
    if arguments.calibration_ids is None:
        return None
    from refemu.models import token_ids

    return token_ids.read(arguments.calibration_ids, model.config.vocab)


def named(arguments: argparse.Namespace) -> str:
    """The file that is read; "" for the shipped text."""
    return str(arguments.ids or getattr(arguments, "text", None) or "")
