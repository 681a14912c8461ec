"""Tokenizers that GGUF files carry, built with the `tokenizers` library by the rules of llama.cpp.

`tokenizer.ggml.model` names the kind: byte-level BPE ("gpt2"), a SentencePiece vocabulary whose best-scored pair is
merged first ("llama"), WordPiece ("bert"). How byte-level BPE splits a text before it merges is given only by a name,
`tokenizer.ggml.pre`; unknown names are rejected. Only WordPiece normalizes a text. Control and user-defined tokens are
matched in the text.
"""

import math
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.models.extras import need
from refemu.models.tokenizer import OR_IDS, LibraryTokenizer

if TYPE_CHECKING:
    from refemu.models.weights.files import Gguf

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4  #: token types of GGUF
SPACE = "\u2581"  #: a space in a SentencePiece vocabulary, the start of a word in a WordPiece one
KEEPS_SPACES = ("<unk>", "<s>", "<|endoftext|>")  #: tokens of Phi-3 that do not take the spaces after them
LONGEST = 100  #: longest word in characters that WordPiece splits, as in BERT

_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*")
_LLAMA3 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINES}"
_QWEN2 = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_LINES}"
_TEKKEN = rf"{_CASED[0]}|{_CASED[1]}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_LINES}"
_GPT4O = rf"{_CASED[0]}{_ENDINGS}?|{_CASED[1]}{_ENDINGS}?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_LINES}"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
#: pattern that splits a text before byte-level BPE, by `tokenizer.ggml.pre`; None: GPT-2's
SPLITTINGS: dict[str, str | None] = {
    **dict.fromkeys(("gpt-2", "smollm"), None),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _QWEN2),
    "tekken": _TEKKEN,
    "gpt-4o": _GPT4O,
    "bloom": _BLOOM,
}
DIGITS_ALONE = ("smollm",)  #: digits (category N) are split off first
WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "tekken")  #: a piece that is a token is not built from merges


def from_gguf(file: "Gguf") -> LibraryTokenizer:
    """The tokenizer of a GGUF file; raise Refused for an unknown kind or splitting: the user can give ids."""
    kind = file.metadata("tokenizer.ggml.model")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Refused(f"{file.path}: tokenizer.ggml.model must be one of {', '.join(KINDS)}, got {kind!r}; {OR_IDS}")
    tokenizers = need("tokenizers", "the tokenizer of this model")
    with reading(str(file.path), "a file with a readable tokenizer", Exception):
        return LibraryTokenizer(KINDS[kind](file, tokenizers))


def _byte_level(file: "Gguf", tokenizers: Any) -> Any:
    """Byte-level BPE, as in GPT-2."""
    pre = file.metadata("tokenizer.ggml.pre")
    if not isinstance(pre, str) or pre not in SPLITTINGS:
        raise Refused(f"{file.path}: tokenizer.ggml.pre must be one of {', '.join(SPLITTINGS)}, got {pre!r}; {OR_IDS}")
    bpe = tokenizers.models.BPE(_vocabulary(file), _listed_merges(file), ignore_merges=pre in WHOLE_WORDS)
    tokenizer, split, pattern = tokenizers.Tokenizer(bpe), tokenizers.pre_tokenizers, SPLITTINGS[pre]
    steps = [split.Digits(individual_digits=True)] if pre in DIGITS_ALONE else []
    if pattern is not None:
        steps.append(split.Split(tokenizers.Regex(pattern), "isolated"))
    steps.append(split.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    tokenizer.pre_tokenizer = split.Sequence(steps)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return _with_added(file, tokenizer, tokenizers)


def _listed_merges(file: "Gguf") -> list[tuple[str, str]]:
    """The pairs of tokens to merge, in order of priority."""
    pairs = []
    for index, text in enumerate(file.metadata("tokenizer.ggml.merges", [])):
        left, _, right = text.partition(" ")
        if not left or not right:
            where = f"got {text!r} at index {index}"
            raise Refused(f"{file.path}: tokenizer.ggml.merges must be two tokens with a space between, {where}")
        pairs.append((left, right))
    return pairs


def _sentencepiece(file: "Gguf", tokenizers: Any) -> Any:
    """Tokenizer that merges the pair with the best-scored token first; unknown characters become bytes."""
    vocabulary = _vocabulary(file)
    missing = next((byte for byte in range(256) if f"<0x{byte:02X}>" not in vocabulary), None)
    if missing is not None:
        raise Refused(
            f"{file.path}: a vocabulary of kind llama must have a token of every byte, lacks <0x{missing:02X}>"
        )
    scores = file.metadata("tokenizer.ggml.scores", [])
    _require_each(file, "scores", scores, vocabulary)
    unordered = next((index for index, score in enumerate(scores) if math.isnan(score)), None)
    if unordered is not None:
        raise Refused(f"{file.path}: tokenizer.ggml.scores must be numbers, got nan at index {unordered}")
    unknown = next(iter(_of_type(file, UNKNOWN)), None)
    bpe = tokenizers.models.BPE(vocabulary, merges(vocabulary, scores), byte_fallback=True, unk_token=unknown)
    tokenizer, change, back = tokenizers.Tokenizer(bpe), tokenizers.normalizers, tokenizers.decoders
    prefix = bool(file.metadata("tokenizer.ggml.add_space_prefix", True))
    steps = [change.Prepend(SPACE)] if prefix else []
    tokenizer.normalizer = change.Sequence([*steps, change.Replace(" ", SPACE)])
    undo = [back.Replace(SPACE, " "), back.ByteFallback(), back.Fuse()]
    tokenizer.decoder = back.Sequence([*undo, back.Strip(" ", 1, 0)] if prefix else undo)
    return _with_added(file, tokenizer, tokenizers)


def merges(vocabulary: dict[str, int], scores: list[float]) -> list[tuple[str, str]]:
    """Pairs of tokens that make a token: best score first, equal scores in the order of ids."""
    lengths = {len(text) for text in vocabulary} - {0}
    pairs = [
        (-scores[token], token, text[:cut], text[cut:])
        for text, token in vocabulary.items()
        for cut in lengths
        if len(text) - cut in lengths and text[:cut] in vocabulary and text[cut:] in vocabulary
    ]
    return [(left, right) for _, _, left, right in sorted(pairs)]


def _word_pieces(file: "Gguf", tokenizers: Any) -> Any:
    """BERT's tokenizer: lower case without accents, words and punctuation, longest pieces from the left."""
    listed = file.metadata("tokenizer.ggml.tokens", [])
    special = set(_of_type(file, CONTROL, UNKNOWN))
    cased = next((token for token in listed if token not in special and token != token.lower()), None)
    if cased is not None:
        raise Refused(f"{file.path}: a vocabulary of kind bert must be in lower case, got token {cased!r}; {OR_IDS}")
    names = [token if token in special else _piece(token) for token in listed]
    start, end, unknown = (
        names[_token_id(file, name, default, len(names))]
        for name, default in (("cls", 101), ("seperator", 102), ("unknown", 100))
    )
    model = tokenizers.models.WordPiece(_numbered(file, names), unk_token=unknown, max_input_chars_per_word=LONGEST)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    tokenizer.add_special_tokens([name for name in names if name in special])
    frame = [(name, names.index(name)) for name in (start, end)]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(f"{start} $A {end}", special_tokens=frame)
    return tokenizer


def _token_id(file: "Gguf", name: str, default: int, count: int) -> int:
    """The id of a special token, below `count`."""
    number = file.metadata(f"tokenizer.ggml.{name}_token_id", default)
    if not isinstance(number, int) or not 0 <= number < count:
        raise Refused(f"{file.path}: tokenizer.ggml.{name}_token_id must be in [0, {count}), got {number!r}")
    return number


def _piece(token: str) -> str:
    """A token as BERT writes it: no mark at the start of a word, ## inside one."""
    return token[1:] if token.startswith(SPACE) else f"##{token}"


def _vocabulary(file: "Gguf") -> dict[str, int]:
    return _numbered(file, file.metadata("tokenizer.ggml.tokens", []))


def _numbered(file: "Gguf", tokens: list[str]) -> dict[str, int]:
    """Ids by token; raise Refused for a repeated token."""
    numbers = {token: number for number, token in enumerate(tokens)}
    if len(numbers) != len(tokens):
        twice = next(number for number, token in enumerate(tokens) if numbers[token] != number)
        raise Refused(f"{file.path}: tokens must differ, got {tokens[twice]!r} twice, first at index {twice}")
    return numbers


def _of_type(file: "Gguf", *kinds: int) -> list[str]:
    tokens, types = file.metadata("tokenizer.ggml.tokens", []), file.metadata("tokenizer.ggml.token_type")
    if types is None:  # all tokens are normal
        return []
    _require_each(file, "token_type", types, tokens)
    return [token for token, kind in zip(tokens, types, strict=True) if kind in kinds]


def _require_each(file: "Gguf", name: str, values: Sized, tokens: Sized) -> None:
    """Raise Refused unless a list has an entry for each token."""
    if len(values) != len(tokens):
        must = f"must have an entry for each of {len(tokens)} tokens"
        raise Refused(f"{file.path}: tokenizer.ggml.{name} {must}, got {len(values)}")


def _with_added(file: "Gguf", tokenizer: Any, tokenizers: Any) -> Any:
    """Tokens matched in the text before it is split; those of Phi-3 include the spaces after them."""
    name = str(file.metadata("general.name", "")).lower()
    strips = "phi-3" in name or "phi3" in name
    for kind, special in ((CONTROL, True), (UNKNOWN, True), (USER_DEFINED, False)):
        for token in _of_type(file, kind):
            right = strips and token not in KEEPS_SPACES
            added = tokenizers.AddedToken(token, normalized=False, special=special, rstrip=right)
            (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([added])
    return tokenizer


Build = Callable[["Gguf", Any], Any]
KINDS: dict[str, Build] = {
    "gpt2": _byte_level,
    "llama": _sentencepiece,
    "bert": _word_pieces,
}  #: function that makes the tokenizer, by `tokenizer.ggml.model`
