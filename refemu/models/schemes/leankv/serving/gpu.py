"""Times of a step on a GPU: bytes over bandwidth or operations over peak rate, whichever is longer (D-leankv-70).

Rates are the vendor's peaks, so times are lower bounds. Sources: data sheets of NVIDIA L40 (2023), A100 80 GB (2021)
and H100 SXM (2023): memory, bandwidth, dense fp16 tensor rate, PCIe in one direction.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from refemu.models.machine.shapes import Shape
from refemu.units.declaration import decides


@dataclass(frozen=True)
class Gpu:
    """Peak rates of a GPU."""

    memory: int  #: bytes
    bandwidth: float  #: bytes a second of the external memory
    rate: float  #: fp16 operations a second; a multiply-add is two
    link: float  #: bytes a second to the host and to other GPUs, in one direction


GPUS: dict[str, Gpu] = {
    "l40": Gpu(48_000_000_000, 864e9, 181.05e12, 32e9),
    "a100": Gpu(80_000_000_000, 2039e9, 312e12, 32e9),
    "h100": Gpu(80_000_000_000, 3350e9, 989.4e12, 64e9),
}  #: by the name that `--gpu` takes


class Work(NamedTuple):
    """Bytes and operations of a step in one worker."""

    weights: float = 0  #: bytes of weights that are read
    cache: float = 0  #: bytes of keys, values and their metadata that are read and written
    linear: float = 0  #: operations of linear layers
    attention: float = 0  #: operations of attention
    swapped: float = 0  #: bytes to or from the host
    reduced: float = 0  #: bytes that a worker sends to the others


@dataclass(frozen=True)
class Rates:
    """Work and time of the steps of a model on `workers` GPUs, each with a share of every matrix and of the heads."""

    sizes: Shape
    gpu: Gpu
    workers: int = 1
    _known: dict[int, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)  # by tokens

    @property
    def weight_bytes(self) -> int:
        """Bytes of a worker's weights in fp16, the embedding included."""
        tables = 2 * self.sizes.vocab * self.sizes.width  # embedding and head
        return -(-2 * (self.sizes.blocks * self.sizes.weights + tables) // self.workers)

    def _of_tokens(self, tokens: int) -> tuple[int, int]:
        """Weights of all blocks that some tokens read, and multiply-adds."""
        if tokens not in self._known:
            self._known[tokens] = self._counted(tokens)
        return self._known[tokens]

    def _counted(self, tokens: int) -> tuple[int, int]:
        read = products = 0
        for group in self.sizes.groups.values():
            for layer in group:
                read += layer.inputs * layer.outputs * layer.used(tokens)
                products += layer.inputs * layer.outputs * layer.active * tokens
        return self.sizes.blocks * read, self.sizes.blocks * products

    def work(self, tokens: int, requests: int, pairs: float, cache: float, swapped: float = 0) -> Work:
        """Work of a step. tokens: computed; requests: rows of the head; pairs: of a query and a key, in every head."""
        sizes = self.sizes
        head = sizes.vocab * sizes.width
        read, products = self._of_tokens(tokens)
        sent = 2 * sizes.blocks * 2 * tokens * sizes.width * 2 * (self.workers - 1) / self.workers
        return Work(
            weights=2 * (read + head) / self.workers if tokens else 0,
            cache=cache,
            linear=2 * (products + head * requests) / self.workers,
            attention=4 * sizes.blocks * sizes.heads * sizes.head_dim * pairs / self.workers,
            swapped=swapped,
            reduced=sent,
        )

    @decides("D-leankv-70")
    def seconds(self, work: Work) -> tuple[float, str]:
        """Time of a step, and what bounds it: "memory", "compute" or "link"; parts follow each other."""
        parts = (
            (work.weights / self.gpu.bandwidth, work.linear / self.gpu.rate),
            (work.cache / self.gpu.bandwidth, work.attention / self.gpu.rate),
        )
        link = (work.swapped + work.reduced) / self.gpu.link
        memory = compute = 0.0
        for bytes_time, rate_time in parts:
            if bytes_time >= rate_time:
                memory += bytes_time
            else:
                compute += rate_time
        longest = max(memory, compute, link)
        bound = "link" if longest == link else "memory" if longest == memory else "compute"
        return memory + compute + link, bound
