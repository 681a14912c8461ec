"""BERT-like encoders in GGUF files: sizes from the metadata, places of the weights.

Names of tensors are those of the gguf package. A setting or tensor that the encoder does not use is rejected by name;
so is the tensor of another output (a pooler, a classifier), if a file has one.
"""

from refemu.models.encoder.config import BIAS, EncoderConfig
from refemu.models.extras import need
from refemu.models.weights.checkpoint import Renamed, Settings, naming
from refemu.models.weights.files import Gguf

ARCHITECTURE = "bert"  #: general.architecture
TENSORS = {
    "embed": "TOKEN_EMBD",
    "position": "POS_EMBD",
    "token_type": "TOKEN_TYPES",
    "embed_norm": "TOKEN_EMBD_NORM",
    "q": "ATTN_Q",
    "k": "ATTN_K",
    "v": "ATTN_V",
    "o": "ATTN_OUT",
    "attn_norm": "ATTN_OUT_NORM",
    "up": "FFN_UP",
    "down": "FFN_DOWN",
    "ffn_norm": "LAYER_OUT_NORM",
}  #: part -> the gguf package's name of the tensor
MEAN = {0: "none", 1: "mean"}  #: pooling_type; other poolings select one token


def is_encoder(file: Gguf) -> bool:
    """Whether the file holds a BERT-like encoder."""
    return bool(file.metadata("general.architecture") == ARCHITECTURE)


def open_encoder(file: Gguf) -> tuple[EncoderConfig, Renamed]:
    """Sizes and weights of the encoder in a file."""
    sizes = gguf_config(file)
    return sizes, Renamed(file, sizes, raw_name)


def gguf_config(file: Gguf) -> EncoderConfig:
    """Sizes from GGUF metadata."""
    read = Settings(
        f"{file.path}: {ARCHITECTURE}.", lambda key, default: file.metadata(f"{ARCHITECTURE}.{key}", default)
    )
    read.expect("attention.causal", False, "every token sees every token")
    pooling = read.whole("pooling_type", 0)
    if pooling not in MEAN:
        read.expect("pooling_type", 1, "the mean of the hidden states")
    vocab, _ = file.shape("token_embd.weight")
    with naming(file.path):
        config = EncoderConfig(
            blocks=read.whole("block_count"),
            width=read.whole("embedding_length"),
            ffn=read.whole("feed_forward_length"),
            heads=read.whole("attention.head_count"),
            vocab=vocab,
            context=read.whole("context_length"),
            token_types=file.shape("token_types.weight")[0],
            norm_eps=read.real("attention.layer_norm_epsilon"),
        )
    read.expect("attention.head_count_kv", config.heads, "keys and values of every head")
    keys = [key.removeprefix(f"{ARCHITECTURE}.") for key in file.keys if key.startswith(f"{ARCHITECTURE}.")]
    read.require_all_read(keys, ("vocab_size", "tensor_data_layout"))
    return config


def raw_name(name: str) -> str:
    """`blk.3.q.bias` -> `blk.3.attn_q.bias`."""
    constants = need("gguf", "reading a GGUF file").constants
    ending = BIAS if name.endswith(BIAS) else ".weight"
    prefix, _, part = name.removesuffix(BIAS).rpartition(".")
    pattern: str = constants.TENSOR_NAMES[constants.MODEL_TENSOR[TENSORS[part]]]
    return pattern.format(bid=prefix.removeprefix("blk.")) + ending
