"""Input of a command: a text of --text, token ids of --ids, or the default text; the same for calibration."""

import argparse
import hashlib
import sys
from pathlib import Path
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
    tokens: list[int] = model.tokenizer.encode(remembered(arguments))
    return tokens


def remembered(arguments: argparse.Namespace) -> str:
    """The text, read once: standard input cannot be read again."""
    if not hasattr(arguments, "read_text"):
        arguments.read_text = words(arguments)
    text: str = arguments.read_text
    return text


def listed_ids(model: Any, arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --ids; None without it. Refused: --ids with --text, and ids outside the vocabulary."""
    if arguments.ids is None:
        return None
    if getattr(arguments, "text", None):
        raise Refused("--ids replaces the text: leave out --text")
    from refemu.models import token_ids

    return token_ids.read(arguments.ids, model.config.vocab)


def given_ids(model: Any, arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --ids or of --text; None without both, and the default text is then read."""
    return ids(model, arguments) if arguments.ids is not None or arguments.text else None


def calibration_ids(model: Any, arguments: argparse.Namespace) -> list[int] | None:
    """Token ids of --calibration-ids or --calibration-text; None without, and schemes use the default text.

    Refused: both, and standard input for two texts.
    """
    file, text_file = arguments.calibration_ids, arguments.calibration_text
    if file is not None and text_file is not None:
        raise Refused("--calibration-ids replaces the calibration text: leave out --calibration-text")
    if text_file is None and file is None:
        return None
    if text_file is None:
        from refemu.models import token_ids

        return token_ids.read(file, model.config.vocab)
    from refemu.models import text

    if text_file == text.STDIN == getattr(arguments, "text", None):
        raise Refused("--calibration-text -: standard input is already --text; give a file")
    arguments.read_calibration = text.read(text_file)
    tokens: list[int] = model.tokenizer.encode(arguments.read_calibration)
    return tokens


def note_unused(calibration: Any, names: list[str]) -> None:
    """Note a calibration text that none of the schemes uses."""
    from refemu.models import schemes
    from refemu.models.scores.score import unused_calibration

    if calibration is not None and names and all(schemes.ignores_calibration(schemes.parse(name)) for name in names):
        print(f"refemu: note: {unused_calibration(', '.join(names))}", file=sys.stderr)


def named(arguments: argparse.Namespace) -> str:
    """The file that is read; "" for the default text."""
    return str(arguments.ids or getattr(arguments, "text", None) or "")


def origins(arguments: argparse.Namespace, ids: Any, calibration: Any) -> dict[str, Any]:
    """Names and sha256 of the text and of the calibration text, as --json prints them; null for the default one."""
    read = None if arguments.ids else remembered(arguments)
    text = _origin(named(arguments) or "persuasion", read, ids)
    if calibration is None:
        return {"text": text, "calibration": None}
    file = arguments.calibration_text or arguments.calibration_ids
    return {"text": text, "calibration": _origin(file, getattr(arguments, "read_calibration", None), calibration)}


def read_digests(arguments: argparse.Namespace) -> dict[str, str | None]:
    """sha256 of the text and of the calibration text that a command read, or of a file of token ids; None: neither."""
    texts = {name: getattr(arguments, f"read_{name}", None) for name in ("text", "calibration")}
    digests = {
        name: None if text is None else hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()
    }
    ids = getattr(arguments, "calibration_ids", None)
    if ids is not None:
        digests["calibration"] = hashlib.sha256(Path(ids).read_bytes()).hexdigest()
    return digests


def _origin(name: str, text: str | None, ids: Any) -> dict[str, Any]:
    from refemu.models.scores.score import digest

    sha256 = None if text is None else hashlib.sha256(text.encode()).hexdigest()
    return {"name": name, "sha256": sha256, "ids_sha256": digest(ids)}


def origin_lines(origins: dict[str, Any]) -> list[str]:
    """One line for the text and one for the calibration text, with their digests, for people."""
    lines = []
    for what, each in origins.items():
        if each is not None:
            digest = f"sha256 {each['sha256']}" if each["sha256"] else f"sha256 of the token ids {each['ids_sha256']}"
            lines.append(f"{what} {each['name']}: {digest}")
    return lines
