"""What a scheme is: a frozen configuration, and what `prepare` makes of it and a model's weights.

A configuration's fields are the scheme's parameters: the command line sets them by name, a manifest carries them.
`Prepared` is the list of parts that `refemu.models.runtime` asks for. Scheme `fp16` computes every one of them
[D-arith-15]; another scheme derives from it and replaces what its paper changes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.config import GATED

if TYPE_CHECKING:
    from refemu.models.cache import Caches
    from refemu.models.config import ModelConfig
    from refemu.models.model import Model
    from refemu.models.taps import Watch

GROUPS = GATED  #: linear layers of a Llama-like block; a group reads one input

Progress = Callable[[str, int, int], None]  #: progress(what, done, total)


def silent(what: str, done: int, total: int) -> None:
    """The progress that nobody watches."""


class Prepared(Protocol):
    """A model under a scheme, ready to run. Hidden states are float32 (tokens, width)."""

    name: str  #: of the model
    sha256: str  #: of its weights
    model: "ModelConfig"
    config: "Scheme"
    backend: Backend

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """Rows of the embedding, (tokens, width)."""

    def position(self, start: int, count: int) -> np.ndarray:
        """Learned embeddings of the positions start, start + 1, ..., (count, width)."""

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """The norm `name` ("blk.3.attn_norm", "norm") of every token."""

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: "Watch") -> Sequence[np.ndarray]:
        """The projections `names` of a block (one of `model.groups`) that read the same input `x`, in that order."""

    def rotate(self, x: np.ndarray, start: int) -> np.ndarray:
        """Rotary positions start, start + 1, ... applied to (tokens, heads, head_dim)."""

    def cache(self, layer: int) -> Any:
        """An empty KV cache of a block: `len`, `append(k, v)`, `truncate(length)`."""

    def caches(self) -> "Caches":
        """The empty caches of a session."""

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: "Watch") -> np.ndarray:
        """Scores, softmax and weighted sum of the last tokens over all that `cache` holds, (tokens, heads * dim)."""

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: "Watch") -> np.ndarray:
        """silu(gate) * up."""

    def activate(self, layer: int, up: np.ndarray, watch: "Watch") -> np.ndarray:
        """The activation of a feed-forward half without a gate."""

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The residual addition."""

    def head(self, x: np.ndarray, watch: "Watch") -> np.ndarray:
        """Logits, float32 (tokens, vocabulary)."""


class Scheme(Protocol):
    """A frozen dataclass whose fields are the scheme's parameters.

    A scheme that also computes BERT-like encoders says so by a class variable `encoders` that is true; its `prepare`
    then answers them with a `refemu.models.encoder.PreparedEncoder`. One that computes every decoder a `ModelConfig`
    can describe, not only Llama-like ones, has a true `every_decoder`. One that taps names the units whose ports a run
    can show in an attribute `taps`.
    """

    paper: ClassVar[str]  #: "olive §3.4", or where else the scheme is defined

    def prepare(
        self, model: "Model", backend: Backend, calibration: Sequence[int] | None, progress: Progress
    ) -> Prepared:
        """Weights to the scheme's formats; what it searches or trains offline.

        calibration: token ids for schemes that calibrate; None stands for the model's calibration text.
        """


def require_layers(scheme: Any, model: "Model") -> None:
    """Refuse a decoder with layers that the scheme does not compute."""
    more = getattr(model.config, "unlike_llama", ())
    if more and not getattr(scheme, "every_decoder", False):
        raise Refused(
            f"{type(scheme).__name__} computes Llama-like decoders, and {model.name} has "
            f"{', '.join(more)}; docs/models.md says which schemes compute these"
        )
