"""Small valid inputs of the targets, from which a guided search starts; all are made, none is stored."""

import dataclasses
import io
import json
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import safetensors.numpy

from refemu import __version__, checked_json
from refemu.golden.campaign import folder as campaign_folder
from refemu.golden.campaign import plan
from refemu.golden.files import exchange
from refemu.golden.files import manifest as manifests
from refemu.golden.serve import server
from refemu.models.config import ModelConfig
from refemu.models.gguf_tokenizer import SPLITTINGS
from refemu.models.schemes import SCHEMES, describe
from tests.fuzz import commands, samples
from tests.fuzz.mutate import WORDS
from tests.models import toy_files, toy_vocabularies

SIZES = ModelConfig(
    blocks=1, width=16, ffn=16, heads=2, kv_heads=1, head_dim=8, vocab=300, context=16, rope_base=10000.0,
    tied_head=True,
)  # fmt: skip
REQUEST = manifests.canonical(
    {
        "schema": campaign_folder.SCHEMA,
        "refemu_version": __version__,
        "request": plan.request(64, units_=["concat"]).stated(),
    }
).decode()
DESCRIPTION = {"version": 1, "arrays": {}, "model": "m"}
CACHED = checked_json.dump(DESCRIPTION).decode()
MAP = {
    "top": "core",
    "parameters": {"WIDTH": 8, "KIND": "2'b01"},
    "clock": "clk",
    "reset": {"port": "rst_n", "active": "low"},
    "inputs": {"i_a": "a", "i_b": "b"},
    "outputs": {"q": "o_q[7:0]"},
    "open": ["debug"],
    "about": "a core",
}
FILES = "# sources\n+incdir+a/inc+$ROOT/inc // headers\n+define+WIDE+N=3\ntop.sv\n-Iother -DFAST=1\n-Wno-x\n"
LOG = "FAIL row 1: in 00 got xx want 000 care fff\n  y: got 1 want 0\nFAIL 1 of 6 rows differ\nexit 1\n"
TRACE = '{"arrival": 0.5, "prompt": 3, "generate": 4}\n\n{"arrival": 0, "prompt": 1, "generate": 16777216}\n'


@cache
def initial() -> dict[str, list[bytes]]:
    """Valid inputs by target."""
    with tempfile.TemporaryDirectory() as folder:
        return _answers() | _models(Path(folder)) | _texts()


@cache
def _place() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()  # until the process ends


@cache
def one() -> samples.Set:
    """A set with its answers in every form."""
    return samples._set(Path(_place().name), "concat", "a4")


def _answers() -> dict[str, list[bytes]]:
    told = one().answers
    frame, stimulus = server.HEAD.pack(server.RESET, 0), bytes(8)
    step, run = (server.HEAD.pack(kind, size) + stimulus[:size] for kind, size in ((server.STEP, 4), (server.RUN, 8)))
    return {
        "manifest": [(one().folder / "manifest.json").read_bytes()],
        "container": [(one().folder / "vectors.npz").read_bytes(), *_containers()],
        **{f"answer_{form}": [told[f"a.{form}"]] for form in exchange.FORMS},
        "answer_file": [told["gold.mem"], told["a.testfloat"], told["a.npz"]],
        "piped": [b"".join(one().piped)],
        "offline": _containers(),
        "frames": [joined([step, frame]), joined([run, frame])],
    }


def _containers() -> list[bytes]:
    stream = io.BytesIO()
    words = np.frombuffer(json.dumps({"version": 1, "what": "toy"}).encode(), np.uint8)
    np.savez(stream, allow_pickle=False, description=words, codebooks=np.arange(6, dtype=np.float32).reshape(2, 3))
    return [stream.getvalue()]


def _models(folder: Path) -> dict[str, list[bytes]]:
    tensors = toy_files.values(SIZES)
    settings = {"llama.block_count": 1, "llama.embedding_length": 16, "llama.feed_forward_length": 16}
    settings |= {"llama.attention.head_count": 2, "llama.attention.head_count_kv": 1, "llama.rope.dimension_count": 8}
    file = toy_files.write_gguf(folder / "m.gguf", tensors, None, settings)
    vocabularies = [toy_vocabularies.write_sentencepiece(folder / "s.gguf")]
    vocabularies += [toy_vocabularies.write_word_pieces(folder / "w.gguf")]
    vocabularies += [toy_vocabularies.write_byte_level(folder / "b.gguf", next(iter(SPLITTINGS)))]
    index = dict.fromkeys(map(toy_files.raw_name_hf, tensors), "part.safetensors")
    return {
        "gguf": [file.read_bytes()],
        "gguf_vocabulary": [path.read_bytes() for path in vocabularies],
        "safetensors": [_weights()["model.safetensors"]],
        "config_json": [_weights()["config.json"]],
        "tokenizer_json": [samples._tokenizer(kind).encode() for kind in ("llama", "bert")],
        "index_json": [json.dumps({"metadata": {}, "weight_map": index}).encode()],
    }


def _texts() -> dict[str, list[bytes]]:
    arrays = []
    for kind in (np.int64, np.uint8):
        stream = io.BytesIO()
        np.save(stream, np.arange(12, dtype=kind))
        arrays.append(stream.getvalue())
    fields = [part for row in describe() for part in row["parameters"].split() if "=" in part]
    named = [f"{name}:{field}" for name in SCHEMES for field in fields if len(field) < 40][::17]
    found = {
        "port_map": [json.dumps(MAP)],
        "file_list": [FILES],
        "bench_log": [LOG, f"PASS 6 rows of concat-a4, sha256 {'0' * 64}\n"],
        "campaign": [REQUEST],
        "requests": [TRACE],
        "scheme": [*SCHEMES, *named],
        "unit_config": ["orizuru:n=4,k=1", "concat:a3", "OVP_INT4[left=high]", "none", "INT[bits=4]"],
        "break_condition": [text for text in (*commands.CONDITIONS, *WORDS) if len(text) < 200],
        "texts": ["1\t0.5\ta good film\n2\t-1.25\tan awful film\n", "it is 12\n"],
        "cached": [CACHED],
        "ids": ["1 2 3\n255\t0"],
    }
    told = {name: [text.encode("utf-8", "surrogatepass") for text in each] for name, each in found.items()}
    told["ids"] += arrays
    return told


@cache
def _weights() -> dict[str, bytes]:
    """Files of a model folder in Hugging Face's layout."""
    with tempfile.TemporaryDirectory() as folder:
        place = toy_files.write_safetensors(
            Path(folder), {}, num_hidden_layers=1, hidden_size=16, intermediate_size=16, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=16,
        )  # fmt: skip
        named = {toy_files.raw_name_hf(name): value for name, value in toy_files.values(SIZES).items()}
        safetensors.numpy.save_file(named, place / "model.safetensors")
        return {path.name: path.read_bytes() for path in place.iterdir()}


def model(folder: Path) -> Path:
    """A model folder in `folder`."""
    for name, data in _weights().items():
        (folder / name).write_bytes(data)
    return folder


def joined(parts: list[bytes]) -> bytes:
    """Parts, each after its length in two bytes."""
    return b"".join(len(part).to_bytes(2, "little") + part for part in parts)


def split(data: bytes) -> list[bytes]:
    """The parts that `joined` joined; a length beyond the end means the rest."""
    parts = []
    while len(data) > 2:
        size = int.from_bytes(data[:2], "little")
        parts.append(data[2 : 2 + size])
        data = data[2 + size :]
    return parts


@dataclasses.dataclass(frozen=True)
class State:
    """A state for conditions."""

    index: int = 3
    event: str = "load"
    h: tuple[int, ...] = (1, 2)
    illegal: int = 1


def state() -> State:
    """A state with ports of one lane and of two."""
    return State()
