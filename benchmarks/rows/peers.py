"""SmolLM2 compared with transformers and llama.cpp on the same GGUF file, one thread: a prompt, and tokens after it."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.pairs import Absent, AnyRow, Row, first_call, guarded, row, size, smallest
from benchmarks.rows.model import CALIBRATION, SEARCH, _seconds
from benchmarks.rows.rivals import optional
from refemu import models
from refemu.models import text
from refemu.models.fetch import store

NAME = "smollm2-135m"
PROMPT, DECODE, ROUNDS = 256, 16, 5  #: tokens; pairs of a row
#: scheme -> least share of positions whose best token is the peer's
SCHEMES = {"fp16": 0.7, "olive-4": 0.1, "harmonia-kv4": 0.3, "leankv": 0.6, "kllm-a4": 0.1}
#: peer -> least ratio of a decode: llama.cpp has no order of sums, so half of its speed counts as equal
GOALS = {"llama.cpp": 0.5}


@dataclass(frozen=True)
class Peer:
    """Another runtime of the same model. Both calls give logits (tokens, vocabulary)."""

    name: str
    prompt: Callable[[Sequence[int]], np.ndarray]  #: from an empty cache
    step: Callable[[int, int], np.ndarray]  #: a token at a position, after those before it
    alive: tuple[Any, ...] = ()  #: callbacks that the runtime uses


def rows() -> Sequence[AnyRow]:
    """Each scheme compared with each peer that is installed."""
    file = store.path(NAME)
    if file is None:
        return [Absent(id, f"rows of {NAME}", f"no model: refemu models fetch {NAME}") for id in IDS]
    model = models.load(NAME)
    ids = model.tokenizer.encode(text.default())[: size(PROMPT, 8) + DECODE]
    made: list[AnyRow] = []
    for name, modules, extra, peer in PEERS:
        found, absent = optional(IDS[0], extra, *modules)
        made += [replace(line, id=id, what=f"{NAME} compared with {name}") for line in absent for id in IDS]
        if found:
            made += guarded(" ".join(IDS), name, partial(_compared, model, partial(peer, *found, file), ids))
    return made


def _compared(model: Any, load: Callable[[], Peer], ids: list[int]) -> list[Row]:
    peer = load()
    return [each for scheme in (["fp16"] if smallest() else SCHEMES) for each in _rows(model, scheme, peer, ids)]


def _rows(model: Any, scheme: str, peer: Peer, ids: list[int]) -> list[Row]:
    prompt, steps = ids[:-DECODE], ids[-DECODE:]
    changes = {"olive-4": f":{SEARCH}", "kllm-a4": f":{CALIBRATION}"}.get(scheme, "")
    session = models.session(models.prepare(model, scheme + changes))
    start = session.mark()

    def ours() -> np.ndarray:
        session.rewind(start)
        return session.append(prompt)

    first = first_call(ours)
    after = session.mark()

    def decode() -> np.ndarray:
        session.rewind(after)
        return np.concatenate([session.append([token]) for token in steps])

    def their_decode() -> np.ndarray:
        return np.concatenate([peer.step(token, len(prompt) + place) for place, token in enumerate(steps)])

    first_step, theirs = first_call(decode), [peer.prompt(prompt), their_decode()]
    best = [np.argmax(each, -1) for each in (*theirs, first.result, first_step.result)]
    right = bool(np.mean(np.concatenate(best[:2]) == np.concatenate(best[2:])) >= size(SCHEMES[scheme], 0.0))
    prefills, decodes = [], []
    for _ in range(size(ROUNDS, 1)):
        prefills.append((_seconds(lambda: peer.prompt(prompt)), _seconds(ours)))
        decodes.append((_seconds(their_decode), _seconds(decode)))
    what, goal = f"{NAME} {scheme}", GOALS.get(peer.name.split()[0], 0.0)
    return [
        row(IDS[0], f"{what} prefill {len(prompt)}", peer.name, prefills, first, 0.0, right),
        row(IDS[1], f"{what} decode {DECODE} tokens", peer.name, decodes, first_step, goal, right),
    ]


def _transformers(dtype: str, torch: Any, transformers: Any, gguf: Any, file: Path) -> Peer:
    """The file's weights, dequantized."""
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    load = transformers.AutoModelForCausalLM.from_pretrained
    loaded = load(file.parent, gguf_file=file.name, dtype=getattr(torch, dtype)).eval()
    cache: list[Any] = [None]

    def run(words: Sequence[int]) -> np.ndarray:
        with torch.inference_mode():
            found = loaded(torch.tensor([list(words)]), past_key_values=cache[0], use_cache=True)
        cache[0] = found.past_key_values
        return np.asarray(found.logits[0].float().numpy())

    def prompt(words: Sequence[int]) -> np.ndarray:
        cache[0] = None
        return run(words)

    def step(token: int, position: int) -> np.ndarray:
        if ahead := cache[0].get_seq_length() - position:
            cache[0].crop(-ahead)
        return run([token])

    return Peer(f"transformers, {dtype}", prompt, step)


def _llama(xllamacpp: Any, file: Path) -> Peer:
    """The file's 4-bit weights as they are, with the defaults of llama.cpp."""
    lib, tokens = _libllama(xllamacpp), size(PROMPT, 8) + DECODE
    silent = CALLBACK(lambda *_: None)
    lib.llama_log_set(silent, None)
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(str(file).encode(), lib.llama_model_default_params())
    context = lib.llama_init_from_model(model, lib.llama_context_default_params())
    lib.llama_set_n_threads(context, 1, 1)
    vocab, memory = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model)), lib.llama_get_memory(context)
    batch = lib.llama_batch_init(tokens, 0, 1)

    def run(words: Sequence[int], position: int) -> np.ndarray:
        batch.n_tokens = len(words)
        for place, word in enumerate(words):
            batch.token[place], batch.pos[place], batch.logits[place] = word, position + place, 1
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
        lib.llama_memory_seq_rm(memory, 0, position, -1)  # what the cache has from here on
        if code := lib.llama_decode(context, batch):
            raise RuntimeError(f"llama_decode ended with code {code}")
        return np.ctypeslib.as_array(lib.llama_get_logits(context), (len(words), vocab)).copy()

    name = f"llama.cpp {xllamacpp.__version__}, {file.stem.rpartition('.')[2]}"
    return Peer(name, lambda words: run(words, 0), lambda token, position: run([token], position), (silent,))


class _Parameters(ctypes.Structure):
    """Of a model or a context: fields differ from release to release, so defaults are passed on unread."""

    _fields_ = (("bytes", ctypes.c_char * 1024),)


class _Batch(ctypes.Structure):
    """llama_batch."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.POINTER(ctypes.c_float)),
        ("pos", ctypes.POINTER(ctypes.c_int32)),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
POINTER, INT = ctypes.c_void_p, ctypes.c_int32
#: function -> result and arguments
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "llama_log_set": (None, (CALLBACK, POINTER)),
    "llama_backend_init": (None, ()),
    "llama_model_default_params": (_Parameters, ()),
    "llama_context_default_params": (_Parameters, ()),
    "llama_model_load_from_file": (POINTER, (ctypes.c_char_p, _Parameters)),
    "llama_init_from_model": (POINTER, (POINTER, _Parameters)),
    "llama_set_n_threads": (None, (POINTER, INT, INT)),
    "llama_model_get_vocab": (POINTER, (POINTER,)),
    "llama_vocab_n_tokens": (INT, (POINTER,)),
    "llama_get_memory": (POINTER, (POINTER,)),
    "llama_memory_seq_rm": (ctypes.c_bool, (POINTER, INT, INT, INT)),
    "llama_batch_init": (_Batch, (INT, INT, INT)),
    "llama_decode": (INT, (POINTER, _Batch)),
    "llama_get_logits": (ctypes.POINTER(ctypes.c_float), (POINTER,)),
}


def _libllama(xllamacpp: Any) -> ctypes.CDLL:
    """llama.cpp's C interface, which the extension module exports."""
    lib = ctypes.CDLL(str(next(Path(xllamacpp.__file__).parent.glob("xllamacpp.*so"))))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


IDS = ("PEER-PREFILL", "PEER-DECODE")
PEERS: tuple[tuple[str, tuple[str, ...], str, Callable[..., Peer]], ...] = (
    ("transformers, float32", ("torch", "transformers", "gguf"), "bench-torch", partial(_transformers, "float32")),
    ("transformers, bfloat16", ("torch", "transformers", "gguf"), "bench-torch", partial(_transformers, "bfloat16")),
    ("llama.cpp", ("xllamacpp",), "bench-llama", _llama),
)
ROWS = {" ".join(IDS): rows}
