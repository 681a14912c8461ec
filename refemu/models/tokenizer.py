"""Tokenizers: text to token ids and back.

A model's own vocabulary goes through the `tokenizers` library, that of a GGUF file as `gguf_tokenizer` builds it;
built-in models read bytes. `encode` adds no tokens before or after the text; `sentence` adds those that an encoder was
trained with ([CLS] and [SEP]). Special tokens written in the text (`<|im_start|>`) are matched.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.models.extras import need


class Tokenizer(Protocol):
    """Protocol of tokenizers."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`."""

    def sentence(self, text: str, most: int | None = None) -> list[int]:
        """Token ids of `text` with the tokens that frame it, at most `most` in all; the rest of the text is cut."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included; bytes that are not UTF-8 become U+FFFD."""


class ByteTokenizer:
    """Token id = byte of the UTF-8 text; 256 tokens."""

    def __repr__(self) -> str:
        return "ByteTokenizer()"

    def encode(self, text: str) -> list[int]:
        """The UTF-8 bytes of `text`; raise Refused for lone surrogates."""
        return list(_utf8(text))

    def sentence(self, text: str, most: int | None = None) -> list[int]:
        """The bytes of `text`, at most `most`, without frame tokens."""
        return self.encode(text)[: _room(most, 0)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of bytes `ids`; bytes that are not UTF-8 become U+FFFD."""
        return bytes(_known(ids, 256)).decode("utf-8", errors="replace")


class LibraryTokenizer:
    """A tokenizer of the `tokenizers` library."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.vocab: int = int(library.get_vocab_size(with_added_tokens=True))

    def __repr__(self) -> str:
        return f"LibraryTokenizer({self.vocab} tokens)"

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, nothing added; raise Refused for lone surrogates."""
        _utf8(text)
        with reading("tokenizer", "one that takes this text", Exception):
            return [int(i) for i in self._library.encode(text, add_special_tokens=False).ids]

    def sentence(self, text: str, most: int | None = None) -> list[int]:
        """Token ids of `text` with the tokens that the library's post-processor adds, at most `most` in all."""
        prefix, suffix = self._frame
        return [*prefix, *self.encode(text)[: _room(most, len(prefix) + len(suffix))], *suffix]

    @property
    def _frame(self) -> tuple[list[int], list[int]]:
        """Number of tokens added before and after a text."""
        with reading("tokenizer", "one that frames a text", Exception):
            framed = self._library.encode("", add_special_tokens=True)
            types = self._library.encode("a", add_special_tokens=True).special_tokens_mask
        ids = [int(i) for i in framed.ids]
        front = types.index(0) if 0 in types else 0
        return ids[:front], ids[front:]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens included."""
        known = _known(ids, self.vocab)
        with reading("tokenizer", "one that decodes these tokens", Exception):
            return str(self._library.decode(known, skip_special_tokens=False))


#: next step in every error of a tokenizer
OR_IDS = (
    "give token ids instead of text, on the command line with --ids, and to a scheme that calibrates with "
    "--calibration-ids (ppl, machine, cost)"
)


def from_json(path: Path) -> LibraryTokenizer:
    """The tokenizer of a `tokenizer.json`, the file stored with safetensors weights."""
    tokenizers = need("tokenizers", "the tokenizer of this model")
    if not path.is_file():
        raise Refused(f"{path}: the folder of the weights has no tokenizer; {OR_IDS}")
    with reading(str(path), "a readable tokenizer", Exception):  # the library raises plain Exception
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        tokenizer.no_truncation()  # the caller sets lengths; the file of all-MiniLM-L6-v2 truncates and pads to 128
        tokenizer.no_padding()
        _require_one_token_each(tokenizer.get_vocab(with_added_tokens=False), path)
        return LibraryTokenizer(tokenizer)


def _require_one_token_each(vocabulary: dict[str, int], path: Path) -> None:
    """Raise Refused if two tokens have one id: decoding could return only one of them."""
    if len(set(vocabulary.values())) == len(vocabulary):
        return
    tokens: dict[int, str] = {}
    for token, number in sorted(vocabulary.items()):
        first = tokens.setdefault(number, token)
        if first != token:
            raise Refused(f"{path}: each token must have its own id, got {number} for both {first!r} and {token!r}")


def _room(most: int | None, frame: int) -> int | None:
    """Tokens left for the text; raise Refused if there are none."""
    if most is not None and most <= frame:
        raise Refused(f"sentence: most must be at least {frame + 1}, got {most}")
    return None if most is None else most - frame


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(f"encode: the text has a lone surrogate at index {error.start}") from None


def _known(ids: Sequence[int], vocab: int) -> list[int]:
    known = [int(i) for i in ids]
    for index, i in enumerate(known):
        if not 0 <= i < vocab:
            raise Refused(f"decode: token id {i} at index {index} is outside [0, {vocab})")
    return known
