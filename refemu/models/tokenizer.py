"""Tokenizers: text to token ids and back.

A model's own vocabulary goes through the `tokenizers` library, that of a GGUF file as `gguf_tokenizer` builds it; the
models that are built in read bytes. `encode` adds no token in front or behind; `sentence` adds those that an encoder
was trained with ([CLS] and [SEP]). Special tokens written in the text (`<|im_start|>`) are matched.
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
        """Token ids of `text` between the tokens that frame a text, no more than `most` with them; the rest is cut."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens included; bytes that are no UTF-8 become U+FFFD."""


class ByteTokenizer:
    """Token id = byte of the UTF-8 text; 256 tokens."""

    def __repr__(self) -> str:
        return "ByteTokenizer()"

    def encode(self, text: str) -> list[int]:
        """The UTF-8 bytes of `text`. Refuses lone surrogates."""
        return list(_utf8(text))

    def sentence(self, text: str, most: int | None = None) -> list[int]:
        """The bytes of `text`, at most `most`; nothing frames them."""
        return self.encode(text)[: _room(most, 0)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of bytes `ids`; what is no UTF-8 becomes U+FFFD."""
        return bytes(_known(ids, 256)).decode("utf-8", errors="replace")


class LibraryTokenizer:
    """A tokenizer of the `tokenizers` library."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.vocab: int = int(library.get_vocab_size(with_added_tokens=True))

    def __repr__(self) -> str:
        return f"LibraryTokenizer({self.vocab} tokens)"

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, nothing added. Refuses lone surrogates."""
        _utf8(text)
        with reading("tokenizer", "one that takes this text", Exception):
            return [int(i) for i in self._library.encode(text, add_special_tokens=False).ids]

    def sentence(self, text: str, most: int | None = None) -> list[int]:
        """Token ids of `text` between what the library's post-processor adds, at most `most` in all."""
        front, behind = self._frame
        return [*front, *self.encode(text)[: _room(most, len(front) + len(behind))], *behind]

    @property
    def _frame(self) -> tuple[list[int], list[int]]:
        """The tokens in front of a text and behind it."""
        with reading("tokenizer", "one that frames a text", Exception):
            framed = self._library.encode("", add_special_tokens=True)
            types = self._library.encode("a", add_special_tokens=True).special_tokens_mask
        ids = [int(i) for i in framed.ids]
        front = types.index(0) if 0 in types else 0
        return ids[:front], ids[front:]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens stay."""
        known = _known(ids, self.vocab)
        with reading("tokenizer", "one that decodes these tokens", Exception):
            return str(self._library.decode(known, skip_special_tokens=False))


#: ends a refusal of a tokenizer
OR_IDS = (
    "give token ids instead of text, on the command line with --ids, and to a scheme that calibrates with "
    "--calibration-ids (ppl, machine, cost)"
)


def from_json(path: Path) -> LibraryTokenizer:
    """The tokenizer in a `tokenizer.json`, as lies beside safetensors weights."""
    tokenizers = need("tokenizers", "the tokenizer of this model")
    if not path.is_file():
        raise Refused(f"{path}: no tokenizer lies beside the weights; {OR_IDS}")
    with reading(str(path), "a readable tokenizer", Exception):  # the library raises bare Exception
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
        tokenizer.no_truncation()  # lengths are the caller's: the file of all-MiniLM-L6-v2 cuts and pads to 128
        tokenizer.no_padding()
        _require_one_token_each(tokenizer.get_vocab(with_added_tokens=False), path)
        return LibraryTokenizer(tokenizer)


def _require_one_token_each(vocabulary: dict[str, int], path: Path) -> None:
    """Refuse two tokens of one id, of which decoding would know one."""
    if len(set(vocabulary.values())) == len(vocabulary):
        return
    tokens: dict[int, str] = {}
    for token, number in sorted(vocabulary.items()):
        first = tokens.setdefault(number, token)
        if first != token:
            raise Refused(f"{path}: tokens must have ids of their own, got {number} for {first!r} and {token!r}")


def _room(most: int | None, frame: int) -> int | None:
    """Tokens left for the text; refuses a length that cannot hold one."""
    if most is not None and most <= frame:
        raise Refused(f"sentence: most must be at least {frame + 1}, got {most}")
    return None if most is None else most - frame


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(f"encode: the text holds a lone surrogate at index {error.start}") from None


def _known(ids: Sequence[int], vocab: int) -> list[int]:
    known = [int(i) for i in ids]
    for index, i in enumerate(known):
        if not 0 <= i < vocab:
            raise Refused(f"decode: token id {i} at index {index} is outside [0, {vocab})")
    return known
