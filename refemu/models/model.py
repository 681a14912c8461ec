"""A model: its sizes, its weights by canonical name, its tokenizer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from refemu.arith.checks import Refused, lookup
from refemu.arith.reading import reading
from refemu.home import user_path
from refemu.models import (
    catalog,
    checkpoint,
    decoder_checkpoint,
    encoder_checkpoint,
    fetch,
    shards,
    tiny,
    tiny_decoders,
    tiny_encoder,
    tokenizer,
    weights,
)
from refemu.models.config import ModelConfig
from refemu.models.encoder_config import EncoderConfig
from refemu.models.files import digest
from refemu.models.tokenizer import ByteTokenizer, Tokenizer
from refemu.models.weights import WeightFile, Weights

WHOLE = "model.safetensors"  #: the weight file of a folder, where there is one


@dataclass(frozen=True, eq=False)
class Model:
    """A model as it lies in its file; nothing is prepared or kept in memory."""

    name: str
    config: ModelConfig | EncoderConfig  #: of a decoder, of an encoder
    weights: Weights  #: by canonical name
    sha256: str  #: of the weight file; of the values where there is no file
    make_tokenizer: Callable[[], Tokenizer] = ByteTokenizer

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {self.config!r}, sha256={self.sha256!r})"

    def tensor(self, name: str) -> np.ndarray:
        """The weight `name` of `config.shapes`, float32, a linear layer (out, in). A tied `head` is `embed`."""
        tied = isinstance(self.config, ModelConfig) and self.config.tied_head
        lookup("tensor", name, dict.fromkeys([*self.config.shapes, *(["head"] if tied else [])]))
        return self.weights.tensor("embed" if tied and name == "head" else name)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Text to token ids and back."""
        return self.make_tokenizer()


def load(name: str | Path) -> Model:
    """The model `name` of the catalogue, or the one in a weight file (.gguf, .safetensors) or its folder.

    Of weights in several files the folder, or its `model.safetensors.index.json`, is given. The sha256 of a known
    model's file is checked. Refuses unknown names, weights that are not here, and files that are damaged, foreign, or
    none of these: a decoder like Llama, GPT-2 or OPT, a BERT-like encoder.
    """
    if str(name) == "tiny":
        return Model("tiny", tiny.CONFIG, tiny.Tiny(), tiny.sha256(), ByteTokenizer)
    if str(name) == tiny_encoder.NAME:
        return Model(tiny_encoder.NAME, tiny_encoder.CONFIG, tiny_encoder.TinyEncoder(), tiny_encoder.sha256())
    if str(name) in tiny_decoders.CONFIGS:
        sizes, made = tiny_decoders.CONFIGS[str(name)], tiny_decoders.TinyDecoder(str(name))
        return Model(str(name), sizes, made, tiny_decoders.sha256(str(name)))
    if str(name) in catalog.MODELS:
        return _known(catalog.find(str(name)))
    path = user_path(name)
    if path.is_dir():
        path = path / (WHOLE if (path / WHOLE).is_file() or not (path / shards.INDEX).is_file() else shards.INDEX)
    if not path.is_file() and path == Path(path.name) and not path.suffix:
        catalog.find(str(name))  # refuses, with the nearest name
    with reading(str(path), "a model that can be run"):
        return _open(path.absolute().parent.name if path.name in (WHOLE, shards.INDEX) else path.stem, path)


def _known(entry: catalog.Entry) -> Model:
    if entry.kind == "text":
        raise Refused(f"{entry.name} is a text, not a model: {entry.meaning}")
    return _open(entry.name, fetch.require(entry.name), entry.weights.sha256)


def _open(name: str, path: Path, sha256: str = "") -> Model:
    if path.name == shards.INDEX:
        several = shards.ShardedFile(path)
        return _of_folder(name, several, path.parent, several.sha256())
    file = weights.open_weights(path)
    if isinstance(file, weights.GgufFile):
        config = checkpoint.gguf_config(file)
        return Model(
            name, config, checkpoint.Renamed(file, config), sha256 or digest(path), lambda: tokenizer.from_gguf(file)
        )
    return _of_folder(name, file, path.parent, sha256 or digest(path))


def _of_folder(name: str, file: WeightFile, folder: Path, sha256: str) -> Model:
    """What `config.json` says that the tensors are."""
    sizes: ModelConfig | EncoderConfig
    found: Weights
    other = decoder_checkpoint.open_decoder(file, folder)
    if other is not None:
        sizes, found = other
    elif encoder_checkpoint.is_encoder(folder):
        sizes = encoder_checkpoint.hf_config(folder)
        found = encoder_checkpoint.renamed(file, sizes)
    else:
        sizes = checkpoint.hf_config(folder)
        found = checkpoint.Renamed(file, sizes)
    return Model(name, sizes, found, sha256, lambda: tokenizer.from_json(folder / "tokenizer.json"))
