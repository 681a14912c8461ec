"""A small BERT-like encoder for tests: its weights as a safetensors folder, and what plain Python makes of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import tokenizers

from refemu.models.encoder.config import EncoderConfig
from refemu.models.weights.encoder_checkpoint import raw_name
from tests.models.held import drawn

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "in", "the", "##s", "a"]
CONFIG = EncoderConfig(blocks=2, width=6, ffn=10, heads=2, vocab=len(TOKENS), context=16)


def values(config: EncoderConfig, seed: int = 5) -> dict[str, np.ndarray]:
    """Seeded float32 weights by canonical name, which fp16 does not hold exactly."""
    return {name: draw.astype(np.float32) for name, draw in drawn(config.shapes, seed, 2).items()}


def write(
    folder: Path, tensors: dict[str, np.ndarray], extra: dict[str, np.ndarray] | None = None, **settings: Any
) -> Path:
    """A folder laid out as Hugging Face does; a setting of `...` is left out of config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    unused = {"embeddings.position_ids": np.arange(CONFIG.context)[None]}
    safetensors.numpy.save_file(
        {raw_name(name): value for name, value in tensors.items()} | unused | (extra or {}),
        folder / "model.safetensors",
    )
    known = {
        "model_type": "bert",
        "num_hidden_layers": CONFIG.blocks,
        "hidden_size": CONFIG.width,
        "intermediate_size": CONFIG.ffn,
        "num_attention_heads": CONFIG.heads,
        "vocab_size": CONFIG.vocab,
        "max_position_embeddings": CONFIG.context,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    }
    merged = {key: value for key, value in {**known, **settings}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(merged), "utf-8")
    tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def tokenizer() -> tokenizers.Tokenizer:
    """WordPiece that frames a text and, like the file of all-MiniLM-L6-v2, cuts and pads it."""
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({token: i for i, token in enumerate(TOKENS)}, unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.decoder = tokenizers.decoders.WordPiece()
    made.enable_truncation(4)
    made.enable_padding(length=4)
    return made
