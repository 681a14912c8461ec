"""Token ids: the library against an independent encoder of 30 lines, special tokens, rejected texts."""

import unicodedata
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refemu.arith.checks import Refused
from refemu.models import text
from refemu.models.gguf_tokenizer import from_gguf
from refemu.models.tokenizer import ByteTokenizer, from_json
from refemu.models.weights.files import GgufFile
from tests.models import toy_encoder, toy_files

CHARACTERS = toy_files.byte_characters()
SUFFIXES = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


def pieces(line: str) -> list[str]:
    """Every character of category N on its own, then GPT-2's pattern on what is between."""
    out, start = [], 0
    for at, character in enumerate(line):
        if unicodedata.category(character)[0] == "N":
            out += [*words(line[start:at]), character]
            start = at + 1
    return out + words(line[start:])


def words(line: str) -> list[str]:
    """`'s|'t|'re|'ve|'m|'ll|'d| ?letters| ?others|spaces before spaces|spaces`, by hand."""
    out, at = [], 0
    while at < len(line):
        end = next((at + len(s) for s in SUFFIXES if line.startswith(s, at)), at)
        if end == at:
            first = at + (line[at] == " " and at + 1 < len(line) and kind(line[at + 1]) != "space")
            end = first + 1
            while end < len(line) and kind(line[end]) == kind(line[first]):
                end += 1
            if kind(line[first]) == "space" and end < len(line) and end - at > 1:
                end -= 1  # the last space belongs to the next word
        out.append(line[at:end])
        at = end
    return out


def kind(character: str) -> str:
    if unicodedata.category(character)[0] == "L":
        return "letter"
    return "space" if character.isspace() and character not in "\x1c\x1d\x1e\x1f" else "other"


class Oracle:
    """Byte-level BPE: merge the adjacent pair of lowest rank, leftmost first, until none is left."""

    def __init__(self, tokens: list[str], merges: list[str]) -> None:
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.rank = {tuple(merge.split(" ", 1)): i for i, merge in enumerate(merges)}
        self.piece = cache(self._piece)

    def encode(self, line: str) -> list[int]:
        return [i for piece in pieces(line) for i in self.piece(piece)]

    def _piece(self, piece: str) -> list[int]:
        parts = [CHARACTERS[byte] for byte in piece.encode()]
        while ranked := [(self.rank[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in self.rank]:
            _, at = min(ranked)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> GgufFile:
    path = tmp_path_factory.mktemp("toy") / "toy.gguf"
    return GgufFile(toy_files.write_gguf(path, toy_files.values(toy_files.CONFIG)))


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=30)
AWKWARD = st.text(st.sampled_from(" \n\t  '’sStTrevemlld12²ⅷ五the inAß\x1c!?"), max_size=30)


@given(line=ANY_TEXT | AWKWARD)
def test_bytes_round_trip(line: str) -> None:
    ids = ByteTokenizer().encode(line)

    assert ids == list(line.encode()) and ByteTokenizer().decode(ids) == line


def test_invalid_utf8_becomes_replacement_characters() -> None:
    assert ByteTokenizer().decode([0x41, 0xFF, 0x42]) == "A\ufffdB"


@given(line=AWKWARD)
def test_the_library_equals_the_oracle_on_awkward_text(line: str) -> None:
    tokenizer, oracle = _toy_pair()

    assert tokenizer.encode(line) == oracle.encode(line)
    assert tokenizer.decode(tokenizer.encode(line)) == line


@cache
def _toy_pair() -> tuple[Any, Oracle]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = GgufFile(toy_files.write_gguf(Path(folder) / "toy.gguf", toy_files.values(toy_files.CONFIG)))
        return from_gguf(file), Oracle(toy_files.vocabulary(), toy_files.MERGES)


def test_digits_are_single_even_with_a_merge(toy: GgufFile) -> None:
    """Step 1 of the splitting: `12` is never one token, though the vocabulary has it."""
    vocabulary = toy_files.vocabulary()

    assert [vocabulary[i] for i in from_gguf(toy).encode("the 12")] == ["th", "e", "Ġ", "1", "2"]


def test_special_tokens_in_the_text_are_matched(toy: GgufFile) -> None:
    tokenizer = from_gguf(toy)

    assert tokenizer.encode("<|im_start|>a<|im_end|>") == [1, toy_files.vocabulary().index("a"), 2]
    assert tokenizer.decode([1, 2]) == "<|im_start|><|im_end|>"


def test_tokenizer_next_to_safetensors_is_the_librarys(toy: GgufFile, tmp_path: Path) -> None:
    made = from_gguf(toy)
    made._library.save(str(tmp_path / "tokenizer.json"))

    assert from_json(tmp_path / "tokenizer.json").encode("in the <|im_end|>") == made.encode("in the <|im_end|>")


def test_tokenizer_repr(toy: GgufFile) -> None:
    assert repr(ByteTokenizer()) == "ByteTokenizer()"
    assert repr(from_gguf(toy)) == "LibraryTokenizer(300 tokens)"


@pytest.mark.parametrize("make", [lambda toy: ByteTokenizer(), from_gguf], ids=["bytes", "library"])
def test_invalid_text_and_token_ids_are_rejected(make: Any, toy: GgufFile) -> None:
    with pytest.raises(Refused, match="lone surrogate at index 1"):
        make(toy).encode("a\ud800")
    with pytest.raises(Refused, match="token id 300 at index 1 is outside"):
        make(toy).decode([65, 300])
    with pytest.raises(Refused, match="token id -1 at index 0 is outside"):
        make(toy).decode([-1])


TWICE = '{"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "the folder of the weights has no tokenizer", id="missing"),
        pytest.param("{}", "not a readable tokenizer", id="foreign"),
        pytest.param(TWICE, "each token must have its own id, got 0 for both 'a' and 'b'", id="id of two tokens"),
    ],
)
def test_an_unreadable_tokenizer_file_is_rejected(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)

    with pytest.raises(Refused, match=message):
        from_json(tmp_path / "tokenizer.json")


@pytest.mark.model
def test_smollm2_gives_the_published_ids(smollm2: Any) -> None:
    chat = "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n"

    assert smollm2.tokenizer.encode(chat) == [1, 4093, 198, 1780, 314, 9354, 47, 2, 198, 1, 520, 9531, 198]
    assert smollm2.tokenizer.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert smollm2.tokenizer.decode([1, 4093, 198]) == "<|im_start|>user\n"


@pytest.mark.model
def test_smollm2_equals_the_oracle_on_both_texts(smollm2: Any) -> None:
    """The evaluation text is 4,096 tokens, those of the reference perplexity."""
    file = smollm2.weights.file
    oracle = Oracle(file.metadata("tokenizer.ggml.tokens"), file.metadata("tokenizer.ggml.merges"))
    more = "In 1817, ²½ of 五 ⅷ;  \n\n\t don't we'll\u00a0I'M naïve\u3000x \x1c y"

    for line in (text.default(), text.calibration(), more):
        assert smollm2.tokenizer.encode(line) == oracle.encode(line)
        assert smollm2.tokenizer.decode(smollm2.tokenizer.encode(line)) == line
    assert len(smollm2.tokenizer.encode(text.default())) == 4096


def word_pieces(tmp_path: Path) -> Any:
    toy_encoder.tokenizer().save(str(tmp_path / "tokenizer.json"))
    return from_json(tmp_path / "tokenizer.json")


def test_word_pieces_are_neither_cut_nor_padded(tmp_path: Path) -> None:
    """The file says to cut and to pad to 4 tokens; lengths are the caller's."""
    made = word_pieces(tmp_path)

    assert made.encode("in") == [4]
    assert made.encode("In THE thes in in in") == [4, 5, 5, 6, 4, 4, 4]


@pytest.mark.parametrize(
    ("words", "most", "ids"),
    [("in the", None, [2, 4, 5, 3]), ("in the", 4, [2, 4, 5, 3]), ("in the", 3, [2, 4, 3]), ("", None, [2, 3])],
)
def test_sentence_is_framed_and_cut_inside_frame(tmp_path: Path, words: str, most: int | None, ids: list[int]) -> None:
    assert ids == word_pieces(tmp_path).sentence(words, most)


def test_byte_tokenizer_adds_no_special_tokens() -> None:
    assert ByteTokenizer().sentence("in the", 3) == list(b"in ")
    assert ByteTokenizer().sentence("in") == list(b"in")


def test_sentence_without_space_for_a_token_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="most must be at least 3, got 2"):
        word_pieces(tmp_path).sentence("in", 2)
    with pytest.raises(Refused, match="most must be at least 1, got 0"):
        ByteTokenizer().sentence("in", 0)
