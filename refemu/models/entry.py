"""Loading and preparation of models, the entry of everything that runs one."""

from pathlib import Path

import numpy as np

from refemu.arguments import checked
from refemu.arith.checks import Refused
from refemu.models import backend as backends
from refemu.models import plugin_models, schemes, text
from refemu.models.backend import Backend
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.schemes import model_share, registry
from refemu.models.schemes.scheme import CalibrationTokens, Prepared, Progress, Scheme, require_layers, silent
from refemu.models.weights import files

FEWEST = 2  #: calibration tokens: one has no neighbour, and scales would describe a single word


@checked
def load(name: str | Path) -> Model:
    """Load a model of the catalogue, or one from a weight file (.gguf, .safetensors) or its folder.

    For safetensors in several files give the folder or its `model.safetensors.index.json`; for a split GGUF model any
    of its parts (`NAME-00001-of-00003.gguf`), all in one folder. The sha256 of a known model's file is checked.

    Parameters
    ----------
    name : str or Path
        Name or path.

    Returns
    -------
    Model
        Sizes, weights and tokenizer.

    Raises
    ------
    Refused
        An unknown name; missing weights; a damaged file, another format, or a model of a family that docs/your-model.md
        does not list.
    """
    if str(name) == "tiny":
        from refemu.models.builtin import tiny

        return tiny.model()
    if str(name) == "tiny-encoder":
        from refemu.models.builtin import tiny_encoder

        return tiny_encoder.model()
    from refemu.models import model_files
    from refemu.models.builtin import tiny_decoders

    if str(name) in tiny_decoders.CONFIGS:
        return tiny_decoders.model(str(name))
    if isinstance(name, str) and not Path(name).exists() and plugin_models.REGISTRY.knows(name):
        return plugin_models.load(name)
    return model_files.load(name)


@checked
def prepare(
    model: Model | str,
    scheme: str | Scheme = "fp16",
    backend: str | Backend = "jit",
    calibration: CalibrationTokens | str | Path | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Prepare a model under a scheme: weights in the scheme's formats, scales searched.

    Parameters
    ----------
    model : Model or str
        Model, or a name that `load` knows.
    scheme : str or Scheme
        `name:field=value,...`, a mix such as `olive-4+leankv-k8v4`, or a configuration.
    backend : str or Backend
        "jit", "numpy", or an instance such as `Jit(threads=2)`; no bit depends on it.
    calibration : sequence of int, str or Path, optional
        For schemes that calibrate: token ids, a text, or the path of a file or folder of texts; by default the shipped
        calibration text.
    progress : callable, optional
        Called as progress(what, done, total).

    Returns
    -------
    Prepared
        Model under the scheme, ready to run.

    Raises
    ------
    Refused
        An unknown name, a scheme that does not compute such models, a single calibration token, or a weight file
        that changed since it was loaded.
    """
    config, engine = schemes.find(scheme), backends.find(backend)
    loaded = model_share.whole(load(model) if isinstance(model, str) else model)
    if isinstance(loaded.config, EncoderConfig) and not config.encoders:
        raise Refused(f"{type(config).__name__} computes decoders, and {loaded.name} is an encoder")
    require_layers(config, loaded)
    tokens = calibration_tokens(loaded, calibration)
    files.require_same(loaded.weights)
    with backends.on_threads(engine):
        prepared = registry.prepare(config, loaded, engine, tokens, progress or silent)
    files.require_same(loaded.weights)
    return prepared


def words(text_or_path: str | Path) -> str:
    """A text itself, or the text of a Path: a file, a folder, `-` for standard input."""
    return text.read(text_or_path) if isinstance(text_or_path, Path) else text_or_path


def calibration_tokens(model: Model, calibration: CalibrationTokens | str | Path | None) -> CalibrationTokens | None:
    """The token ids of a calibration; raises Refused for one alone. Objects that schemes learn pass."""
    ids = model.tokenizer.encode(words(calibration)) if isinstance(calibration, str | Path) else calibration
    if isinstance(ids, list | tuple | np.ndarray):
        count = int(np.concatenate([np.ravel(each) for each in ids]).size) if len(ids) else 0
        if 0 < count < FEWEST:
            raise Refused(f"calibration: must have at least {FEWEST} tokens, got {count}; give a longer text")
    return ids
