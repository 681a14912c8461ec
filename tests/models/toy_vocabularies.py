"""Tokenizers in GGUF files of no tensors, for tests: byte-level BPE, SentencePiece, WordPiece."""

from pathlib import Path
from typing import Any

import gguf

from tests.models import toy_files

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
MERGES = ["t h", "Ġ t", "Ġt h", "Ġth e", "i n", "1 2", "12 3", "' s", "' S", "Ġ Ġ", "h e", "e r", "Ċ Ċ", "! !"]
#: a piece that is a token, though no merges lead to it
WHOLE = "Ġwhole"
SCORED = [
    "▁",
    "t",
    "h",
    "e",
    "i",
    "n",
    "s",
    "a",
    "▁t",
    "th",
    "he",
    "▁th",
    "▁the",
    "in",
    "▁in",
    "the",
    "hes",
    "is",
    "▁▁",
]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁in", "▁the", "s", "▁a", "▁,", "the"]


def byte_level() -> list[str]:
    """Special tokens, bytes, what the merges make, and a word that they do not make."""
    made = [merge.replace(" ", "") for merge in MERGES]
    return [*toy_files.SPECIAL, *toy_files.byte_characters(), *made, WHOLE]


def sentencepiece() -> tuple[list[str], list[float], list[int]]:
    """Tokens, scores, types: every byte, scored pieces, a token of the user."""
    special = ["<unk>", "<s>", "</s>", "<|end|>"]
    tokens = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *SCORED, "   "]
    scores = [0.0] * 260 + [-float(number * 7 % 19) for number in range(len(SCORED))] + [0.0]
    types = [UNKNOWN, CONTROL, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(SCORED), USER_DEFINED]
    return tokens, scores, types


def write(
    path: Path, kind: str, tokens: list[str], types: list[int], arch: str = "llama", name: str = "toy", **more: Any
) -> Path:
    """A file with a vocabulary of a kind. more: keys after `tokenizer.ggml.`."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(name)
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    add = {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, list: writer.add_array}
    for key, value in more.items():
        add[type(value)](f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_byte_level(path: Path, pre: str, **more: Any) -> Path:
    """Byte-level BPE under a splitting."""
    tokens = byte_level()
    types = [CONTROL if token in toy_files.SPECIAL else NORMAL for token in tokens]
    return write(path, "gpt2", tokens, types, pre=pre, merges=MERGES, **more)


def write_sentencepiece(path: Path, **more: Any) -> Path:
    """A SentencePiece vocabulary."""
    tokens, scores, types = sentencepiece()
    return write(path, "llama", tokens, types, scores=scores, **more)


def write_word_pieces(path: Path, tokens: list[str] = WORDS) -> Path:
    """A WordPiece vocabulary as converters spell it."""
    types = [CONTROL if token.startswith("[") else NORMAL for token in tokens]
    numbers = {"unknown_token_id": 1, "cls_token_id": 2, "seperator_token_id": 3}
    return write(path, "bert", tokens, types, "bert", **numbers)
