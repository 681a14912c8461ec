"""Cached tensors that schemes share: matrices in the form of the matmul, embeddings in fp16."""

import contextvars
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from refemu.arith.panels import Panels
from refemu.arith.threads import get_threads
from refemu.models.backend import Backend
from refemu.models.model import Model
from refemu.models.prepared.prepared_cache import PreparedCache

T = TypeVar("T")
R = TypeVar("R")


def matrix(prepared_cache: PreparedCache, backend: Backend, name: str, rows: Callable[[], np.ndarray]) -> Any:
    """`backend.weights` of a matrix (outputs, inputs); rows: computes it if it is not cached."""
    if prepared_cache.folder is None:
        return backend.weights(rows())
    return Panels.of_arrays(prepared_cache.item(f"{name}.matrix", lambda: backend.weights(rows()).arrays()))


def half(prepared_cache: PreparedCache, model: Model, name: str) -> np.ndarray:
    """A weight of the model rounded to fp16; the weight of an fp16 checkpoint is mapped and not cached."""
    item = f"{name}.half"
    if prepared_cache.holds(item):
        return prepared_cache.item(item, dict)["values"]
    values = model.half(name)
    if prepared_cache.folder is None or not values.flags.writeable:
        return values
    return prepared_cache.item(item, lambda: {"values": values})["values"]


def together(prepared_cache: PreparedCache, make: Callable[[T], R], wanted: Sequence[T]) -> Iterator[R]:
    """Results of `make` for each, in order, on the process's threads, or two where files take half of the time."""
    workers = max(get_threads(), 1 if prepared_cache.folder is None else 2)
    if workers == 1:
        yield from map(make, wanted)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="refemu-prepare") as pool:
        running = []
        try:
            for item in wanted:
                running.append(pool.submit(contextvars.copy_context().run, make, item))
                if len(running) > workers:  # results wait in memory until they are read
                    yield running.pop(0).result()
            while running:
                yield running.pop(0).result()
        finally:
            for task in running:
                task.cancel()
