"""Loading of models by name. The code of a built-in model, or what reads files, is imported when it is asked for."""

from pathlib import Path

from refemu.models.model import Model


def load(name: str | Path) -> Model:
    """Load a model of the catalogue, or that of a weight file (.gguf, .safetensors) or its folder.

    Of weights in several files give the folder, or its `model.safetensors.index.json`. The sha256 of a known model's
    file is checked.

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
        The name is unknown, weights are not here, or a file is damaged, foreign, or none of these: a decoder like
        Llama, GPT-2 or OPT, a BERT-like encoder.
    """
    if str(name) == "tiny":
        from refemu.models.builtin import tiny

        return tiny.model()
    if str(name) == "tiny-encoder":
        from refemu.models.builtin import tiny_encoder

        return tiny_encoder.model()
    if str(name) in ("tiny-gpt2", "tiny-opt"):
        from refemu.models.builtin import tiny_decoders

        return tiny_decoders.model(str(name))
    from refemu.models import stored

    return stored.load(name)
