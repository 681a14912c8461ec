"""A prompt through a model of random weights, compared with transformers on the same weights (SIZE-PREFILL)."""

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import seeded_checkpoint
from benchmarks.pairs import Absent, Row, pairs, size
from benchmarks.rows.rivals import Rows, optional
from refemu import models

TOKENS = 256
CLOSE = 0.02  #: of the largest logit: transformers sums in float32 or float16, in another order


def prompts() -> Rows:
    """Two blocks of TinyLlama's shape under `fp16`, one thread; theirs in float32, as on a CPU, and in float16."""
    modules, absent = optional("SIZE-PREFILL", "bench-torch", "torch", "transformers")
    if absent:
        return absent
    torch, transformers = modules
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as place:
        folder = seeded_checkpoint.write(size("two-blocks", "smallest"), Path(place) / "checkpoint")
        model = models.load(folder)
        session = models.session(models.prepare(model, "fp16"))
        mark, ids = session.mark(), [7 * i % model.config.vocab for i in range(size(TOKENS, 8))]

        def ours() -> np.ndarray:
            session.rewind(mark)
            return session.append(ids, last=True)

        rows: list[Row | Absent] = []
        for dtype in ("float32", "float16"):
            theirs = _beside(torch, transformers, folder, dtype, ids)
            what = f"fp16, {TOKENS} tokens through two blocks 2048 wide"
            rows.append(pairs("SIZE-PREFILL", what, f"transformers, {dtype}", theirs, ours, _close, 1.0))
            gc.collect()
        return rows


def _beside(torch: Any, transformers: Any, folder: Path, dtype: str, ids: list[int]) -> Any:
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    words = torch.tensor([ids])

    def theirs() -> np.ndarray:
        with torch.inference_mode():
            logits = loaded(words, use_cache=True, logits_to_keep=1).logits
        return np.asarray(logits[0].float().numpy())

    return theirs


def _close(theirs: np.ndarray, ours: np.ndarray) -> bool:
    return float(np.abs(theirs - ours).max()) <= CLOSE * float(np.abs(theirs).max())


ROWS = {"SIZE-PREFILL": prompts}
