"""Tokenizers of GGUF files: splittings piece by piece, merges against independent encoders, rejected files."""

import math
import tempfile
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.models import text
from refemu.models.gguf_tokenizer import SPLITTINGS, WHOLE_WORDS, from_gguf, merges
from refemu.models.weights.files import GgufFile
from tests.models import toy_vocabularies
from tests.models.toy_files import byte_characters
from tests.models.toy_vocabularies import CONTROL, NORMAL, WHOLE, WORDS, byte_level, sentencepiece, write_word_pieces


def opened(write: Any, *arguments: Any, **settings: Any) -> Any:
    """The tokenizer of a file that is gone."""
    with tempfile.TemporaryDirectory() as folder:
        return from_gguf(GgufFile(write(Path(folder) / "toy.gguf", *arguments, **settings)))


@cache
def byte_bpe(pre: str) -> Any:
    return opened(toy_vocabularies.write_byte_level, pre)


def pieces(pre: str, line: str) -> list[str]:
    """What a splitting makes of a text."""
    found = byte_bpe(pre)._library.pre_tokenizer.pre_tokenize_str(line)
    return [bytes(byte_characters().index(character) for character in piece).decode() for piece, _ in found]


#: pieces of one text by each splitting: contractions, numbers, letters after signs, lines, spaces
LINE = "It's WE'LL (x) 12345 aB.\n\n  go!/ "
PIECES = {
    "gpt-2": ["It", "'s", " WE", "'", "LL", " (", "x", ")", " 12345", " aB", ".", "\n\n ", " go", "!/", " "],
    "smollm": ["It", "'s", " WE", "'", "LL", " (", "x", ")", " ", *"12345", " aB", ".", "\n\n ", " go", "!/", " "],
    "llama-bpe": ["It", "'s", " WE", "'LL", " (", "x", ")", " ", "123", "45", " aB", ".\n\n", " ", " go", "!/", " "],
    "qwen2": ["It", "'s", " WE", "'LL", " (", "x", ")", " ", *"12345", " aB", ".\n\n", " ", " go", "!/", " "],
    "tekken": ["It", "'s", " WE", "'LL", " (", "x", ")", " ", *"12345", " a", "B", ".\n\n", " ", " go", "!/", " "],
    "gpt-4o": ["It's", " WE'LL", " (", "x", ")", " ", "123", "45", " a", "B", ".\n\n", " ", " go", "!/", " "],
    "bloom": ["It's", " WE'LL", " (", "x", ")", " 12345", " aB", ".\n\n ", " go", "!", "/", " "],
}
SAME = {"llama3": "llama-bpe", "llama-v3": "llama-bpe", "dbrx": "llama-bpe", "deepseek-r1-qwen": "qwen2"}


@pytest.mark.parametrize("pre", SPLITTINGS)
def test_every_splitting_cuts_as_it_is_published(pre: str) -> None:
    assert pieces(pre, LINE) == PIECES[SAME.get(pre, pre)]


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=20)
AWKWARD = st.text(st.sampled_from(" \n\r\t'’sStTheinwol12³5五é!?.,(/"), max_size=20)


def merged(pre: str, piece: str) -> list[int]:
    """Merge the adjacent pair of lowest rank, leftmost first, until none is left."""
    ids = {token: number for number, token in enumerate(byte_level())}
    rank = {tuple(merge.split(" ")): number for number, merge in enumerate(toy_vocabularies.MERGES)}
    parts = [byte_characters()[byte] for byte in piece.encode()]
    if pre in WHOLE_WORDS and "".join(parts) in ids:
        return [ids["".join(parts)]]
    while ranked := [(rank[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in rank]:
        _, at = min(ranked)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [ids[part] for part in parts]


@pytest.mark.parametrize("pre", SPLITTINGS)
@given(line=ANY_TEXT | AWKWARD)
def test_pieces_are_merged_and_go_back(pre: str, line: str) -> None:
    cut = pieces(pre, line)

    assert "".join(cut) == line
    assert byte_bpe(pre).encode(line) == [token for piece in cut for token in merged(pre, piece)]
    assert byte_bpe(pre).decode(byte_bpe(pre).encode(line)) == line


def test_whole_token_pieces_follow_the_splitting() -> None:
    """Llama 3 and Mistral's newer vocabularies ignore merges there."""
    found = {pre: byte_bpe(pre).encode(" whole") for pre in SPLITTINGS}

    assert {pre for pre, ids in found.items() if ids == [byte_level().index(WHOLE)]} == set(WHOLE_WORDS)
    assert byte_bpe("qwen2").decode(found["qwen2"]) == " whole"


@cache
def scored(prefix: bool = True, name: str = "toy") -> Any:
    more = {} if prefix else {"add_space_prefix": False}
    return opened(toy_vocabularies.write_sentencepiece, name=name, **more)


def by_score(line: str, prefix: bool) -> list[int]:
    """Merge the neighbours that make the best token, leftmost first, between the tokens of the user."""
    tokens, scores, _ = sentencepiece()
    ids, found = {token: number for number, token in enumerate(tokens)}, []
    for number, fragment in enumerate(line.split("   ")):
        found += [ids["   "]] if number else []
        parts = list((" " if prefix and fragment else "") + fragment)
        parts = [part.replace(" ", "▁") for part in parts]
        while best := [(-scores[ids[a + b]], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in ids]:
            _, at = min(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        for part in parts:
            found += [ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode()]
    return found


@pytest.mark.parametrize("prefix", [True, False])
@given(line=st.text(st.sampled_from("  theinsaé\n五"), max_size=24) | ANY_TEXT)
def test_the_best_pair_is_merged_first(prefix: bool, line: str) -> None:
    assert scored(prefix).encode(line) == by_score(line, prefix)


@given(line=st.text(st.sampled_from("  theinsaé\n五"), max_size=24))
def test_a_sentencepiece_text_goes_back(line: str) -> None:
    """After a user token a space is added, as in llama.cpp, and remains."""
    found = scored(False)

    assert found.decode(found.encode(line)) == line
    if "   " not in line and line:
        assert scored().decode(scored().encode(line)) == line


def test_token_of_million_characters_is_not_cut_everywhere() -> None:
    """Only where both parts have the length of a token: else the file is read for hours."""
    vocabulary = {"a": 0, "b": 1, "ab": 2, "ba" * 500_000: 3, "aab": 4, "": 5}

    assert merges(vocabulary, [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]) == [("a", "ab"), ("a", "b")]


def test_control_tokens_are_matched_and_prefix_follows_each() -> None:
    tokens, _, _ = sentencepiece()
    found = [tokens[i] for i in scored().encode("<s>the<|end|> in</s><unk>")]

    assert found == ["<s>", "▁the", "<|end|>", "▁▁", "in", "</s>", "<unk>"]


def test_tokens_of_phi3_take_the_following_spaces() -> None:
    """llama.cpp decides by the model's name; `<s>` keeps them."""
    tokens, _, _ = sentencepiece()
    found = [tokens[i] for i in scored(False, "Phi-3 mini").encode("<s> in<|end|>  in")]

    assert found == ["<s>", "▁in", "<|end|>", "in"]


def test_word_pieces_have_berts_spelling_and_frame() -> None:
    found = opened(write_word_pieces)

    assert found.encode("In the thes, athé [SEP] x") == [4, 5, 5, 6, 8, 7, 9, 3, 1]
    assert found.sentence("in the", 3) == [2, 4, 3]
    assert found.decode([4, 5, 6]) == "in thes"
    longest = "the" + 97 * "s"  # of 100 characters
    assert found.encode(longest) == [5, *[6] * 97] and found.encode(f"{longest}s") == [1]


@pytest.mark.model
def test_word_pieces_of_a_real_vocabulary(minilm: Any, tmp_path: Path) -> None:
    """The ids of its own `tokenizer.json`."""
    numbers = minilm.tokenizer._library.get_vocab()
    listed = sorted(numbers, key=lambda token: int(numbers[token]))
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    spelled = [token if token in special else token[2:] if token[:2] == "##" else f"▁{token}" for token in listed]
    types = [CONTROL if token in special else NORMAL for token in listed]
    path = toy_vocabularies.write(tmp_path / "toy.gguf", "bert", spelled, types, "bert")
    found = from_gguf(GgufFile(path))

    more = "In 1817, ²½ of 五 ⅷ;  \n\n\t don't we'll\u00a0I'M naïve\u3000x \x1c y (cafe\u0301) unbelievableness"
    for line in (text.default(), text.calibration(), more):
        assert found.sentence(line) == minilm.tokenizer.sentence(line)


def test_other_tokenizers_are_rejected(tmp_path: Path) -> None:
    toy, lacking = toy_vocabularies, sentencepiece()[0]
    lacking[4 + 0x41] = "odd"
    types = [NORMAL] * len(lacking)
    for write, message in (
        (
            lambda path: toy.write(path, "t5", ["a"], [1]),
            "model must be one of gpt2, llama, bert, got 't5'; give token",
        ),
        (lambda path: toy.write_byte_level(path, "falcon"), "pre must be one of .*, got 'falcon'; give token ids"),
        (lambda path: toy.write(path, "gpt2", ["a", "b", "a"], [1] * 3, pre="gpt-2"), "'a' twice, first at index 0"),
        (lambda path: toy.write(path, "llama", lacking, types), "a token of every byte, lacks <0x41>"),
        (lambda path: write_word_pieces(path, [*WORDS, "▁Paris"]), "must be in lower case, got token '▁Paris'"),
    ):
        with pytest.raises(Refused, match=message):
            from_gguf(GgufFile(write(tmp_path / "toy.gguf")))


def test_lists_that_do_not_fit_tokens_are_rejected(tmp_path: Path) -> None:
    """The error names the key, before a library or an index error of Python."""
    write, (tokens, scores, types) = toy_vocabularies.write, sentencepiece()
    merges_of, special = ["t h", "th"], {"unknown_token_id": 1, "seperator_token_id": 3}
    for path, message in (
        (write(tmp_path / "0", "llama", tokens, types), "scores must have an entry for each of 280 tokens, got 0"),
        (write(tmp_path / "1", "llama", tokens, types, scores=scores[1:]), "of 280 tokens, got 279"),
        (write(tmp_path / "2", "llama", tokens, types, scores=[0.0, math.nan, *scores[2:]]), "got nan at index 1"),
        (write(tmp_path / "3", "llama", tokens, types[1:], scores=scores), "token_type must have an entry for each"),
        (write(tmp_path / "4", "gpt2", [*"th", "th"], [1] * 3, pre="gpt-2", merges=merges_of), "got 'th' at index 1"),
        (
            write(tmp_path / "5", "bert", WORDS, [CONTROL] * 10, "bert", **special),
            r"cls_token_id must be in \[0, 10\), got 101",
        ),
    ):
        with pytest.raises(Refused, match=rf"^{path}: tokenizer\.ggml\..*{message}"):
            from_gguf(GgufFile(path))
