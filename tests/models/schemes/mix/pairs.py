"""Schemes as parts of a mix, with searches and calibrations that are short, and what a mix makes of a text."""

from functools import cache
from typing import Any

from refemu import models
from refemu.models import schemes

SHORT = {
    "olive-4": "low=90,high=130,step=10,calibration_tokens=64",
    "olive-8": "low=90,high=130,step=10,calibration_tokens=64",
    "olive-study": "calibration_tokens=64",
    **dict.fromkeys(("kllm-a4", "kllm-a4-s", "kllm-a3", "kllm-a3-s"), "calibration_windows=1,calibration_tokens=64"),
}
LINEAR = [name for name in schemes.SCHEMES if not name.startswith("leankv")]
ATTENTION = [name for name in schemes.SCHEMES if not name.startswith("olive")]
TEXT, PROMPT = list(b"Sir Walter Elliot, of"), 14
FEW = slice(12, 21)  #: tokens of the text, for what takes seconds a token


def part(name: str, layers: str = "") -> str:
    """The text of a part, short."""
    at = f"@{layers}" if layers else ""
    return f"{name}{at}:{SHORT[name]}" if name in SHORT else f"{name}{at}"


@cache
def prepared(scheme: str, backend: str = "jit", model: str = "tiny") -> Any:
    return models.prepare(model, scheme, backend)


def logits(parts: Any, prompt: int = PROMPT) -> bytes:
    """Logits of a prompt, and of steps after it."""
    return stepped(parts, TEXT, prompt)


def few_logits(parts: Any) -> bytes:
    """Logits of a short prompt, and of two steps after it."""
    return stepped(parts, TEXT[FEW], len(TEXT[FEW]) - 2)


def stepped(parts: Any, text: list[int], prompt: int) -> bytes:
    """Logits of the first tokens of a text at once, and of the others one by one."""
    session = models.session(parts)
    first = session.append(text[:prompt]).tobytes()
    return first + b"".join(session.append([token]).tobytes() for token in text[prompt:])
