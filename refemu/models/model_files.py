"""Models in files: those of the catalogue, a weight file, a folder."""

from pathlib import Path

from refemu.arith.checks import Refused, lookup
from refemu.arith.reader_errors import reading
from refemu.home import user_path
from refemu.models import gguf_tokenizer, tokenizer
from refemu.models.config import ModelConfig
from refemu.models.encoder.config import EncoderConfig
from refemu.models.fetch import catalog, store
from refemu.models.model import Model
from refemu.models.weights import encoder_checkpoint, files, gguf_decoders, gguf_encoder, hf_decoders, shards
from refemu.models.weights.digests import digest
from refemu.models.weights.files import WeightFile, Weights

WHOLE = "model.safetensors"  #: the weight file of a folder, where there is one


def load(name: str | Path) -> Model:
    """The catalogue's model `name`, or the model in a weight file or folder; see `refemu.models.load`."""
    if str(name) in catalog.MODELS:
        return _known(catalog.find(str(name)))
    path = user_path(name)
    if path.is_dir():
        path = _weights_of(path)
    if not path.is_file():
        raise _unknown(str(name), path)
    with reading(str(path), "a model that can be run"):
        return _open(
            path.absolute().parent.name if path.name in (WHOLE, shards.INDEX) else shards.model_name(path), path
        )


def _weights_of(folder: Path) -> Path:
    """The weight file of a folder, or the index of its shards. Refused: an unknown family, or no such file."""
    for name in (WHOLE, shards.INDEX):
        if (folder / name).is_file():
            return folder / name
    if (folder / "config.json").is_file() and not encoder_checkpoint.is_encoder(folder):
        hf_decoders.family(folder)
    raise Refused(f"{folder}: no {WHOLE}; refemu reads no .bin files: save the model as safetensors")


def _unknown(name: str, path: Path) -> Refused:
    """Error for what is neither a name nor a file: a plain word is taken as a name, anything else as a path."""
    kinds = "a .gguf or .safetensors file, or a folder with config.json"
    if path != Path(path.name) or path.suffix or name.startswith("."):
        return Refused(f"model {name}: no such file or folder; give a name of `refemu models list`, {kinds}")
    try:
        lookup("model", name, {each.name: each for each in catalog.MODELS.values() if each.kind != "text"})
    except Refused as unknown:
        end = "" if str(unknown).endswith("?") else "."
        return Refused(f"{unknown}{end} Or give the path of {kinds}, such as ./{name}")
    raise AssertionError("names of the catalogue are handled by the caller")


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
        return _of_gguf(name, shards.whole(file), sha256)
    return _of_folder(name, file, path.parent, sha256 or digest(path))


def _of_gguf(name: str, file: files.Gguf, sha256: str) -> Model:
    """Model from a GGUF file: its metadata say which tensors it has."""
    encoder = gguf_encoder.is_encoder(file)
    config, weights = gguf_encoder.open_encoder(file) if encoder else gguf_decoders.open_decoder(file)
    sha256 = sha256 or (file.sha256() if isinstance(file, shards.GgufParts) else digest(file.path))
    return Model(name, config, weights, sha256, lambda: gguf_tokenizer.from_gguf(file))


def _of_folder(name: str, file: WeightFile, folder: Path, sha256: str) -> Model:
    """Model from safetensors: its `config.json` says which tensors it has."""
    sizes: ModelConfig | EncoderConfig
    weights: Weights
    if encoder_checkpoint.is_encoder(folder):
        sizes = encoder_checkpoint.hf_config(folder)
        weights = encoder_checkpoint.renamed(file, sizes)
    else:
        sizes, weights = hf_decoders.open_decoder(file, folder)
    return Model(name, sizes, weights, sha256, lambda: tokenizer.from_json(folder / "tokenizer.json"))
