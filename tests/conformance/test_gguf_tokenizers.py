"""Tokenizers of GGUF files against what Hugging Face transformers builds from the same files.

transformers does not have the splittings `smollm` and `bloom`. It adds no space before a text of a Llama-like
vocabulary that begins with one, or after a control token; llama.cpp, whose rules refemu follows, does.
"""

from pathlib import Path
from typing import Any

import pytest

from refemu.models.gguf_tokenizer import SPLITTINGS, WHOLE_WORDS, from_gguf
from refemu.models.weights.files import GgufFile
from tests.conformance.hugging_face import library
from tests.models import toy_vocabularies

TEXTS = [
    "It's WE'LL (x) 12345 aB.\n\n  go!/ ",
    "  in the whole\r\n\r\n\tthe hers  1 22 333 ４４ ²⅗ five五 naïve e\u0301A ",
    "IN'S in's '' ... !!!/// \u3000x\u00a0y\u2028z \x1c q",
    "<|im_start|>the<|im_end|> the",
    "",
]


def theirs(path: Path) -> Any:
    library("transformers")
    from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

    architecture, found, _ = get_gguf_tokenizer(str(path))
    return convert_gguf_tokenizer(architecture, found)[0]


@pytest.mark.parametrize("pre", [name for name in SPLITTINGS if name not in ("smollm", "bloom")])
def test_byte_level_bpe(pre: str, tmp_path: Path) -> None:
    """Pieces and ids; only pieces where one that is a token is taken whole, which transformers merges."""
    path = toy_vocabularies.write_byte_level(tmp_path / "toy.gguf", pre)
    ours, wanted = from_gguf(GgufFile(path)), theirs(path)

    for text in TEXTS:
        pieces = [tokenizer.pre_tokenizer.pre_tokenize_str(text) for tokenizer in (ours._library, wanted)]
        assert pieces[0] == pieces[1], text
        if pre not in WHOLE_WORDS:
            assert ours.encode(text) == wanted.encode(text, add_special_tokens=False).ids, text


SCORED = ["the hes in", "is it  in\nthe é五 <0x41>", "thethe  in▁in", "the<|end|>"]


@pytest.mark.parametrize("arch", ["llama", "phi3", "gemma2"])
def test_sentencepiece(arch: str, tmp_path: Path) -> None:
    """Gemma's file has no prefix, and transformers merges in the order of its ids: scores say the same here."""
    tokens, scores, types = toy_vocabularies.sentencepiece()
    more: dict[str, Any] = {}
    if arch == "gemma2":
        scores, more = [-float(number) for number in range(len(tokens))], {"add_space_prefix": False}
    path = toy_vocabularies.write(tmp_path / "toy.gguf", "llama", tokens, types, arch, scores=scores, **more)
    ours, wanted = from_gguf(GgufFile(path)), theirs(path)
    texts = [*SCORED, *(["  in", " <s> the", "<unk>the</s> in"] if arch != "llama" else [])]

    for text in texts:
        assert ours.encode(text) == wanted.encode(text, add_special_tokens=False).ids, text
