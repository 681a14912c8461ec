"""SmolLM2 under every scheme against the float32 NumPy/BLAS forward: prefill, decode, a long context and its memory."""

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import output
from benchmarks.float32_forward import Forward
from benchmarks.pairs import Absent, AnyRow, First, Row, first_call, guarded, row, sample, size, smallest
from refemu import models
from refemu.models import text
from refemu.models.fetch import store

NAME, RIVAL = "smollm2-135m", "float32 NumPy/BLAS"
DECODE, ROUNDS = 8, 3  #: tokens after a prompt; pairs of a row
LONG, ALLOWED_GB = 2048, 3.0  #: tokens of the long context, and the memory that it may take


@dataclass(frozen=True)
class Case:
    """A scheme, and how many times the rival's time its prefill and its decode may take."""

    name: str
    prefill: float
    decode: float
    changes: str = ""  #: changes that shorten preparation and not the cost of a token
    prompt: int = 256  #: tokens
    cut: bool = True  #: a decode step has the bits of a prompt's column
    alike: float = 0.3  #: share of positions whose best token is that of float32, at least

    @property
    def spec(self) -> str:
        """For `models.prepare`."""
        if smallest() and self.name.startswith("leankv"):
            return NARROW
        return ":".join(filter(None, [self.name, self.changes])) if ":" not in self.name else self.name


SEARCH = "low=90,high=110,step=20"
CALIBRATION = "calibration_windows=1,calibration_tokens=64"
CASES = (
    Case("fp16", 1.6, 0.9, alike=0.9),
    Case("olive-4", 1.8, 1.3, SEARCH, alike=0.1),
    Case("harmonia-kv8", 2.2, 1.0, cut=False),
    Case("harmonia-kv4", 2.2, 1.0, cut=False),
    Case("leankv", 2.2, 1.1, cut=False),
    Case("kllm-a4", 14, 1.4, CALIBRATION, prompt=64, alike=0.1),
)
#: leankv of a model whose heads are 16 wide, as those of `tiny`
NARROW = "leankv:k_vec=1,k_group=4,v_vec=2,v_group=2,align=4+4,page_bytes=112,window=4"
LONG_CASES = ("harmonia-kv4",)  #: ready soon; packs its cache


def whole_model() -> Sequence[AnyRow]:
    """A prompt and some tokens after it, per scheme; 1.0 = as fast as float32 with BLAS."""
    if absent := missing("PERF-M1", "PERF-M2"):
        return absent
    model = models.load(name())
    ids = model.tokenizer.encode(text.default())[: size(256, 8) + DECODE]
    rival = Forward(model, len(ids))
    best = np.argmax(rival.append(ids), -1)
    return [
        made
        for case in CASES
        for made in guarded("PERF-M1 PERF-M2", case.name, partial(_rows, case, model, rival, ids, best))
    ]


def name() -> str:
    """The model of these rows."""
    return size(NAME, "tiny")


def missing(*ids: str) -> list[Absent]:
    """Nothing where the model is here."""
    if smallest() or store.path(NAME) is not None:
        return []
    return [Absent(id, f"rows of {NAME}", f"no model: refemu models fetch {NAME}") for id in ids]


def _rows(case: Case, model: Any, rival: Forward, ids: list[int], best: np.ndarray) -> list[Row]:
    prepared, ids = models.prepare(model, case.spec), ids[: case.prompt + DECODE]
    prompt, steps = ids[:-DECODE], ids[-DECODE:]
    session = models.session(prepared)
    first = first_call(lambda: session.append(prompt))
    mark = session.mark()

    def decode() -> np.ndarray:
        session.rewind(mark)
        return np.concatenate([session.append([token]) for token in steps])

    def their_decode() -> None:
        rival.position = len(prompt)
        for token in steps:
            rival.append([token])

    first_step = first_call(decode)
    whole = models.session(prepared).append(ids) if case.cut else np.concatenate([first.result, first_step.result])
    right = whole.tobytes() == first.result.tobytes() + first_step.result.tobytes()
    right &= bool(np.mean(np.argmax(whole, -1) == best[: len(ids)]) >= size(case.alike, 0.0))
    prefills, decodes = [], []
    for _ in range(size(ROUNDS, 1)):
        prefills.append(
            (_seconds(lambda: _prefill(rival, prompt)), _seconds(lambda: models.session(prepared).append(prompt)))
        )
        decodes.append((_seconds(their_decode), _seconds(decode)))
    return [
        row("PERF-M1", f"{name()} {case.name} prefill {len(prompt)}", RIVAL, prefills, first, 1 / case.prefill, right),
        row(
            "PERF-M2",
            f"{name()} {case.name} decode {DECODE} tokens",
            RIVAL,
            decodes,
            first_step,
            1 / case.decode,
            right,
        ),
    ]


def _prefill(rival: Forward, ids: list[int]) -> np.ndarray:
    rival.reset()
    return rival.append(ids)


def _seconds(call: Callable[[], Any]) -> float:
    return sample(call, 1, time.thread_time)


def long_context() -> Sequence[AnyRow]:
    """2,048 tokens at once, each scheme in a separate process, whose largest resident memory counts."""
    if absent := missing("PERF-M3", "MEM-2048"):
        return absent
    rival = json.loads(_process("float32"))
    cases = [case for case in CASES if case.name in size(LONG_CASES, LONG_CASES[:1])]
    return [
        made
        for case in cases
        for made in guarded("PERF-M3 MEM-2048", case.name, partial(_long, case, rival["seconds"]))
    ]


def _long(case: Case, rival: float) -> list[Row]:
    found, tokens = json.loads(_process(case.spec)), size(LONG, 16)
    right, first = found["finite"] and found["rows"] == tokens, First(found["first"], 0.0, None)
    pair, what = (rival, found["seconds"]), f"{name()} {case.name}"
    made = row("PERF-M3", f"{what} prefill {tokens}", RIVAL, [pair], first, 1 / case.prefill, right)
    memory = row(
        "MEM-2048",
        f"{what} {tokens} tokens, all logits: {found['peak_gb']:.2f} GB",
        f"{ALLOWED_GB:.0f} GB",
        [(ALLOWED_GB, found["peak_gb"])],
        first,
        1.0,
        right,
    )
    peak = 1000 * found["peak_gb"]
    return [replace(made, peak_mb=peak), replace(memory, ours_s=found["seconds"], rival_s=0.0, peak_mb=peak)]


def _process(spec: str, run: str = "run_long") -> str:
    command = [sys.executable, "-c", f"from benchmarks.rows import model; model.{run}({spec!r})"]
    return output(command)


def run_long(spec: str) -> None:
    """Print the memory of a prompt of 2,048 tokens in this process, after a short one that compiles."""
    import resource

    model = models.load(name())
    ids = model.tokenizer.encode(text.default())[: size(LONG, 16)]
    begin = time.perf_counter()
    if spec == "float32":
        append = Forward(model, len(ids)).append
    else:
        prepared = models.prepare(model, spec)
        models.session(prepared).append(ids[:4])
        append = models.session(prepared).append  # type: ignore[assignment]
    first = time.perf_counter() - begin
    begin = time.thread_time()
    logits = append(ids)
    seconds = time.thread_time() - begin
    finite, peak = bool(np.isfinite(logits).all()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"seconds": seconds, "first": first, "rows": len(logits), "finite": finite, "peak_gb": peak}))


def memory_of_codes() -> Sequence[AnyRow]:
    """Memory after 2,048 tokens: weights and cache as codes, compared with FP16 weights and a float32 cache."""
    if absent := missing("MEM-CODES"):
        return absent
    what = f"{name()} harmonia-kv4 behind {LONG} tokens, anonymous"
    if not Path("/proc/self/status").is_file():
        return [Absent("MEM-CODES", what, "no /proc")]
    rival, ours = (json.loads(_process(spec, "run_resident")) for spec in ("fp16", "harmonia-kv4"))
    first = First(ours["first"], 0.0, None)
    pair = rival["resident_gb"], ours["resident_gb"]
    found = f"{what}: {pair[1]:.2f} GB, fp16 {pair[0]:.2f} GB"
    made = row("MEM-CODES", found, "fp16", [pair], first, 1.0, ours["finite"])
    return [replace(made, ours_s=ours["seconds"], rival_s=rival["seconds"], peak_mb=1000 * pair[1])]


def run_resident(spec: str) -> None:
    """Print this process's memory except files, after a prompt of 2,048 tokens with one row of logits."""
    model = models.load(name())
    ids = model.tokenizer.encode(text.default())[: size(LONG, 16)]
    begin = time.perf_counter()
    prepared = models.prepare(model, spec)
    models.session(prepared).append(ids[:4])
    first = time.perf_counter() - begin
    session, begin = models.session(prepared), time.thread_time()
    finite = bool(np.isfinite(session.append(ids, last=True)).all())
    seconds = time.thread_time() - begin
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    resident = int(status["RssAnon"].split()[0]) * 1.024e-6
    print(json.dumps({"seconds": seconds, "first": first, "finite": finite, "resident_gb": resident}))


ROWS: dict[str, Callable[[], Sequence[AnyRow]]] = {
    "PERF-M1 PERF-M2": whole_model,
    "PERF-M3 MEM-2048": long_context,
    "MEM-CODES": memory_of_codes,
}
