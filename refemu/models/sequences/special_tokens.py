"""The ids of the tokens that begin and end a text, from the files of a model."""

from pathlib import Path
from typing import Any, NamedTuple

from refemu.models.model import Model
from refemu.models.weights import files
from refemu.models.weights.checkpoint import read_json


class SpecialTokens(NamedTuple):
    """Token ids that no text contains; None: the model has none."""

    begin: int | None
    ends: tuple[int, ...]  #: any of them ends a generated text


def special_tokens(model: Model) -> SpecialTokens:
    """The tokens of a model's GGUF metadata or of its `config.json`; none for a built-in model."""
    there = files.paths(model.weights)
    if not there:
        return SpecialTokens(None, ())
    file: Any = getattr(model.weights, "file", None)
    if there[0].suffix == ".gguf":
        return _tokens(file.metadata("tokenizer.ggml.bos_token_id"), file.metadata("tokenizer.ggml.eos_token_id"))
    config = Path(there[0]).parent / "config.json"
    settings = read_json(config) if config.is_file() else {}
    return _tokens(settings.get("bos_token_id"), settings.get("eos_token_id"))


def _tokens(begin: Any, ends: Any) -> SpecialTokens:
    listed = ends if isinstance(ends, list | tuple) else [ends]
    return SpecialTokens(
        int(begin) if isinstance(begin, int) else None, tuple(int(each) for each in listed if isinstance(each, int))
    )
