"""Small valid inputs for `readers` to damage."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import tokenizers

from refemu import golden
from refemu.arith.prng import words
from refemu.golden.campaign import plan
from refemu.golden.files import exchange
from refemu.models.encoder.config import EncoderConfig
from refemu.models.weights.decoder_checkpoint import gpt2_source, opt_source
from refemu.models.weights.encoder_checkpoint import raw_name
from refemu.models.weights.hf_decoders import FAMILIES
from tests.models import toy_files

UNITS = {"concat": "a4", "orizuru": "n8", "sub_pe": "paper"}  #: a table, a device of lanes with registers, a float one
LLAMA, GPT2, OPT, BERT = "llama", "gpt2", "opt", "bert"


@dataclass(frozen=True)
class Set:
    """Files of a golden set, and a correct device's answers in every form."""

    folder: Path
    unit: str
    manifest: dict[str, Any]
    arrays: dict[str, np.ndarray]
    answers: dict[str, bytes]  #: by name of the file
    piped: list[bytes]  #: lines that it sends through a pipe


@dataclass(frozen=True)
class Samples:
    """All samples."""

    sets: list[Set]
    models: dict[str, Path]  #: folder by kind
    gguf: Path
    shards: Path
    campaign: Path


def make(folder: Path) -> Samples:
    """The samples, written below `folder`."""
    models = {kind: _model(folder / kind, kind) for kind in (LLAMA, GPT2, OPT, BERT)}
    return Samples(
        [_set(folder / "sets", unit, config) for unit, config in UNITS.items()],
        models,
        toy_files.write_gguf(folder / "toy.gguf", toy_files.values(toy_files.CONFIG)),
        _shards(folder / "shards"),
        _campaign(folder / "campaign"),
    )


def _set(folder: Path, unit: str, config: str) -> Set:
    made = golden.generate(folder, units=[unit], configs=[config], kinds=["paper", "edge"], hex=True)[0]
    found = golden.load(made.path)
    answers = {f"a.{form}": "".join(exchange.export(found, form)).encode() for form in exchange.FORMS}
    answers["gold.mem"] = (Path(made.path) / "hex/gold.mem").read_bytes()
    stream = io.BytesIO()
    np.savez_compressed(
        stream,
        allow_pickle=False,
        **{name: array for name, array in found.arrays.items() if name.startswith("out.") and "care" not in name},
    )
    answers["a.npz"] = stream.getvalue()
    asked, answered = (_words(Path(made.path) / f"hex/{name}.mem") for name in ("stim", "gold"))
    lines = [b"%s %s\n" % pair for pair in zip(asked, answered, strict=True)]
    return Set(Path(made.path), unit, dict(found.manifest), dict(found.arrays), answers, lines)


def _words(path: Path) -> list[bytes]:
    """The words of a file for `$readmemh`, without its comment and its sentinel."""
    return [line for line in path.read_bytes().splitlines() if not line.startswith(b"//")][:-1]


def _model(folder: Path, kind: str) -> Path:
    """A model folder in Hugging Face's layout, with a tokenizer."""
    folder.mkdir(parents=True)
    toy_files.write_safetensors(folder, toy_files.values(toy_files.CONFIG))
    if kind == BERT:
        _bert(folder)
    elif kind != LLAMA:
        _other(folder, kind)
    (folder / "tokenizer.json").write_text(_tokenizer(kind), "utf-8")
    return folder


def _bert(folder: Path) -> None:
    sizes = EncoderConfig(blocks=1, width=16, ffn=24, heads=2, vocab=300, context=16)
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "num_hidden_layers": 1,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_attention_heads": 2,
        "vocab_size": 300,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    _save(folder, {raw_name(name): shape for name, shape in sizes.shapes.items()})


def _other(folder: Path, kind: str) -> None:
    config: dict[str, Any] = {"model_type": kind, "vocab_size": 300, "tie_word_embeddings": True}
    config |= (
        {
            "n_layer": 1,
            "n_embd": 16,
            "n_head": 2,
            "n_positions": 16,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-5,
        }
        if kind == GPT2
        else {
            "num_hidden_layers": 1,
            "hidden_size": 16,
            "num_attention_heads": 2,
            "ffn_dim": 24,
            "max_position_embeddings": 16,
            "activation_function": "relu",
            "do_layer_norm_before": True,
        }
    )
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    sizes = FAMILIES[kind].config(folder)
    source = gpt2_source if kind == GPT2 else opt_source
    places = [source(name, sizes) for name in sizes.shapes]
    _save(folder, {place.raw: place.shape for place in places})


def _save(folder: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """Weights of these shapes; the values do not matter here."""
    tensors = {}
    for number, (name, shape) in enumerate(shapes.items()):
        count = int(np.prod(shape))
        tensors[name] = (words(number, 0, count) >> np.uint64(40)).astype(np.float32).reshape(shape) / np.float32(1e8)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def _tokenizer(kind: str) -> str:
    """Byte-level BPE, or BERT's WordPiece."""
    if kind != BERT:
        vocabulary = {token: at for at, token in enumerate(toy_files.vocabulary())}
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("t", "h"), ("i", "n")]))
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = tokenizers.decoders.ByteLevel()
        return str(made.to_str())
    vocabulary = {token: at for at, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnop"])}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    made.enable_truncation(12)
    return str(made.to_str())


def _shards(folder: Path) -> Path:
    """The Llama-like model in two files and their index."""
    tensors = toy_files.values(toy_files.CONFIG)
    toy_files.write_safetensors(folder, tensors)
    (folder / "model.safetensors").unlink()
    index = {}
    for number, part in enumerate((list(tensors)[::2], list(tensors)[1::2]), 1):
        name = f"model-0000{number}-of-00002.safetensors"
        raw = {toy_files.raw_name_hf(one): tensors[one] for one in part}
        safetensors.numpy.save_file(raw, folder / name)
        index |= dict.fromkeys(raw, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}), "utf-8")
    (folder / "tokenizer.json").write_text(_tokenizer(LLAMA), "utf-8")
    return folder


def _campaign(folder: Path) -> Path:
    """A finished campaign of random cases."""
    plan.run(plan.request(64, units_=["concat"]), folder)
    return folder
