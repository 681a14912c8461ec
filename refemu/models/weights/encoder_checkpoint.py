"""Sizes and tensor names of a BERT-like encoder, from a safetensors file and its `config.json`.

A setting or tensor that the encoder does not use is rejected, except those in `UNUSED`, which no hidden state depends
on.
"""

import re
from pathlib import Path

from refemu.models.encoder.config import BIAS, EncoderConfig
from refemu.models.weights.checkpoint import Renamed, Settings, naming, read_json
from refemu.models.weights.files import WeightFile

HF_NAMES = {
    "embed": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "token_type": "embeddings.token_type_embeddings",
    "embed_norm": "embeddings.LayerNorm",
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "attn_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "ffn_norm": "output.LayerNorm",
}  #: names of Hugging Face
UNUSED = (
    "embeddings.position_ids",
    "pooler.dense.weight",
    "pooler.dense.bias",
)  #: 0, 1, 2, ...; a layer of another output


def is_encoder(folder: Path) -> bool:
    """Whether the `config.json` in `folder` describes a BERT-like encoder; raises Refused unless it is JSON."""
    return read_json(folder / "config.json").get("model_type") == "bert"


def hf_config(folder: Path) -> EncoderConfig:
    """Sizes from Hugging Face's `config.json`."""
    where = folder / "config.json"
    settings = read_json(where)
    read = Settings(f"{where}: ", settings.get)
    for key, wanted in (
        ("model_type", "bert"),
        ("hidden_act", "gelu"),
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
        ("add_cross_attention", False),
    ):
        read.expect(key, wanted, "as in BERT")
    with naming(where):
        return EncoderConfig(
            blocks=read.whole("num_hidden_layers"),
            width=read.whole("hidden_size"),
            ffn=read.whole("intermediate_size"),
            heads=read.whole("num_attention_heads"),
            vocab=read.whole("vocab_size"),
            context=read.whole("max_position_embeddings"),
            token_types=read.whole("type_vocab_size", 2),
            norm_eps=read.real("layer_norm_eps", 1e-12),
        )


def renamed(file: WeightFile, config: EncoderConfig) -> Renamed:
    """The weights of a file under canonical names."""
    return Renamed(file, config, raw_name, UNUSED)


def raw_name(name: str) -> str:
    """`blk.3.q.bias` -> `encoder.layer.3.attention.self.query.bias`."""
    ending = BIAS if name.endswith(BIAS) else ".weight"
    prefix, _, part = name.removesuffix(BIAS).rpartition(".")
    return re.sub(r"^blk\.(\d+)$", r"encoder.layer.\1.", prefix) + HF_NAMES[part] + ending
