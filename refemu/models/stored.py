"""Models in files: those of the catalogue, a weight file, a folder."""

from pathlib import Path

from refemu.arith.checks import Refused
from refemu.arith.reading import reading
from refemu.home import user_path
from refemu.models import tokenizer
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import EncoderConfig
from refemu.models.fetch import catalog, store
from refemu.models.model import Model
from refemu.models.weights import checkpoint, decoder_checkpoint, encoder_checkpoint, files, shards
from refemu.models.weights.digests import digest
from refemu.models.weights.files import WeightFile, Weights

WHOLE = "model.safetensors"  #: the weight file of a folder, where there is one


def load(name: str | Path) -> Model:
    """The model `name` of the catalogue, or the one in a weight file or its folder; see `refemu.models.load`."""
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
    return _open(entry.name, store.require(entry.name), entry.weights.sha256)


def _open(name: str, path: Path, sha256: str = "") -> Model:
    if path.name == shards.INDEX:
        several = shards.ShardedFile(path)
        return _of_folder(name, several, path.parent, several.sha256())
    file = files.open_weights(path)
    if isinstance(file, files.GgufFile):
        config = checkpoint.gguf_config(file)
        return Model(
            name, config, checkpoint.Renamed(file, config), sha256 or digest(path), lambda: tokenizer.from_gguf(file)
        )
    return _of_folder(name, file, path.parent, sha256 or digest(path))


def _of_folder(name: str, file: WeightFile, folder: Path, sha256: str) -> Model:
    """What `config.json` says that the tensors are."""
    sizes: ModelConfig | EncoderConfig
    weights: Weights
    other = decoder_checkpoint.open_decoder(file, folder)
    if other is not None:
        sizes, weights = other
    elif encoder_checkpoint.is_encoder(folder):
        sizes = encoder_checkpoint.hf_config(folder)
        weights = encoder_checkpoint.renamed(file, sizes)
    else:
        sizes = checkpoint.hf_config(folder)
        weights = checkpoint.Renamed(file, sizes)
    return Model(name, sizes, weights, sha256, lambda: tokenizer.from_json(folder / "tokenizer.json"))
