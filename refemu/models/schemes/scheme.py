"""A scheme's configuration, and the protocol of the model prepared under it.

The module of a configuration imports none of the code that runs the scheme.
`Prepared` lists the parts that `refemu.models.runtime` calls. Scheme `fp16` computes all of them [D-arith-15]; another
scheme derives from it and overrides what its paper changes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

import numpy as np

from refemu.arith.checks import Refused
from refemu.arith.operands import Precision
from refemu.models.backend import Backend
from refemu.models.cache import Cache, Caches
from refemu.models.config import GATED, ModelConfig
from refemu.models.encoder.config import EncoderConfig
from refemu.models.model import Model
from refemu.models.taps import Watch

GROUPS = GATED  #: linear layers of a Llama-like block, grouped by input

Half: TypeAlias = Literal[
    "linear", "attention"
]  #: halves of a decoder in a mix; "linear": norms, linear layers, activations of blocks
Scope: TypeAlias = Literal["linear", "attention", "outer"]  #: "outer": embedding, residual sums, last norm, head
CalibrationTokens: TypeAlias = Sequence[int] | Sequence[Sequence[int]]  #: token ids of one text, or of several
Progress: TypeAlias = Callable[[str, int, int], None]  #: progress(what, done, total)


def silent(what: str, done: int, total: int) -> None:
    """Report no progress."""


class Scheme:
    """Parameters of a scheme: the fields of a frozen dataclass that derives from this class.

    The command line sets them by name, a manifest contains them. `kind.SchemeKind` has the code of the scheme.
    """

    paper: ClassVar[str] = ""  #: definition of the scheme, such as "olive §3.4"
    encoders: ClassVar[bool] = False  #: whether it also computes BERT-like encoders
    every_decoder: ClassVar[bool] = False  #: whether it computes every `ModelConfig`, not only Llama-like decoders
    experts: ClassVar[bool] = False  #: whether it computes mixtures of experts
    halves: ClassVar[tuple[Half, ...]] = ()  #: halves that a mix may use
    other_half: ClassVar[str] = ""  #: why a mix may not use the other half, and what to do
    only: ClassVar[Mapping[Scope, frozenset[str]]] = {}  #: parameters that affect one place of a mix only

    @property
    def two_phases(self) -> bool:
        """Whether a prompt is computed differently from the tokens after it."""
        return False

    def session_kernel(self) -> Callable[..., object] | None:
        """A kernel of a scheme whose compiled state no readable form shares, so that a session has one backend.

        Returns
        -------
        callable or None
            The kernel that takes the longest to compile; None for other schemes.
        """
        return None

    @property
    def residual(self) -> Precision:
        """Precision of the residual stream."""
        return "fp16"

    @property
    def scales_queries(self) -> bool:
        """Whether linear layers put 1 / sqrt(head_dim) into queries, and attention expects it."""
        return False

    @property
    def encodes_stream(self) -> bool:
        """Whether linear layers encode the residual stream itself, which then has fp16 values."""
        return False

    @property
    def looks_at_blocks(self) -> bool:
        """Whether a parameter refers to certain blocks, or chooses among all."""
        return False

    @property
    def calibrated_halves(self) -> tuple[Half, ...] | None:
        """Halves that depend on a calibration text; None: not known."""
        return None

    @property
    def arriving_tokens(self) -> int | None:
        """Calibration tokens of the run that freezes inputs as they arrive, the last run; None: no such run."""
        return None


class Prepared(Protocol):
    """Model under a scheme, ready to run. Hidden states are float32 (tokens, width)."""

    name: str  #: name of the model
    sha256: str  #: sha256 of its weights
    model: ModelConfig  #: sizes of the model
    config: Scheme  #: configuration of the scheme
    backend: Backend  #: backend that computes

    def embed(self, ids: np.ndarray) -> np.ndarray:
        """Look up rows of the embedding.

        Parameters
        ----------
        ids : ndarray of int (tokens,)
            Token ids.

        Returns
        -------
        ndarray of float32 (tokens, width)
            Hidden states.
        """

    def position(self, start: int, count: int) -> np.ndarray:
        """Look up learned embeddings of consecutive positions.

        Parameters
        ----------
        start, count : int
            First position and number of positions.

        Returns
        -------
        ndarray of float32 (count, width)
            Embeddings.
        """

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """Apply a norm to every token.

        Parameters
        ----------
        name : str
            "blk.3.attn_norm", "norm", ...
        x : ndarray of float32 (tokens, width)
            Hidden states.

        Returns
        -------
        ndarray of float32 (tokens, width)
            Hidden states.
        """

    def linear(self, layer: int, names: Sequence[str], x: np.ndarray, watch: Watch) -> Sequence[np.ndarray]:
        """Apply projections of a block that read the same input.

        Parameters
        ----------
        layer : int
            Block.
        names : sequence of str
            One of `model.groups`.
        x : ndarray of float32 (tokens, width)
            Input.
        watch : Watch
            Taps and counters.

        Returns
        -------
        sequence of ndarray of float32
            Outputs, in the order of `names`.
        """

    def rotate(self, x: np.ndarray, start: int) -> np.ndarray:
        """Apply rotary positions.

        Parameters
        ----------
        x : ndarray of float32 (tokens, heads, head_dim)
            Queries or keys.
        start : int
            Position of the first token.

        Returns
        -------
        ndarray of float32 (tokens, heads, head_dim)
            Rotated vectors.
        """

    def cache(self, layer: int) -> Cache:
        """Make the empty KV cache of a block, with `len` and `append(k, v)`.

        Parameters
        ----------
        layer : int
            Block.

        Returns
        -------
        object
            Cache.
        """

    def caches(self) -> Caches:
        """Make the empty caches of a session.

        Returns
        -------
        Caches
            One cache per block.
        """

    def attention(self, layer: int, q: np.ndarray, cache: Any, watch: Watch) -> np.ndarray:
        """Compute scores, softmax and weighted sum of the last tokens over the cache.

        Parameters
        ----------
        layer : int
            Block.
        q : ndarray of float32 (tokens, heads, head_dim)
            Queries.
        cache : object
            Cache of the block, the tokens' own keys and values included.
        watch : Watch
            Taps and counters.

        Returns
        -------
        ndarray of float32 (tokens, heads * head_dim)
            Output.
        """

    def activation(self, layer: int, gate: np.ndarray, up: np.ndarray, watch: Watch) -> np.ndarray:
        """Compute silu(gate) * up.

        Parameters
        ----------
        layer : int
            Block.
        gate, up : ndarray of float32 (tokens, width)
            Projections.
        watch : Watch
            Taps and counters.

        Returns
        -------
        ndarray of float32 (tokens, width)
            Product.
        """

    def activate(self, layer: int, up: np.ndarray, watch: Watch) -> np.ndarray:
        """Apply the activation of a feed-forward half without a gate.

        Parameters
        ----------
        layer : int
            Block.
        up : ndarray of float32 (tokens, width)
            Projection.
        watch : Watch
            Taps and counters.

        Returns
        -------
        ndarray of float32 (tokens, width)
            Activations.
        """

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Add a residual.

        Parameters
        ----------
        x, y : ndarray of float32 (tokens, width)
            Hidden states.

        Returns
        -------
        ndarray of float32 (tokens, width)
            Sum.
        """

    def head(self, x: np.ndarray, watch: Watch) -> np.ndarray:
        """Compute logits.

        Parameters
        ----------
        x : ndarray of float32 (tokens, width)
            Hidden states.
        watch : Watch
            Taps and counters.

        Returns
        -------
        ndarray of float32 (tokens, vocabulary)
            Logits.
        """


class PreparedPart(Prepared, Protocol):
    """A part of a mix; by default it changes no other part and freezes nothing."""

    def smoothed(self, model: Model) -> Model:
        """The model with this attention's changes to the weights of linear parts (D-mix-2)."""
        return model

    def settle(self, model: Model, source: CalibrationTokens | None, runner: Prepared) -> None:
        """Freeze inputs as they arrive in the mix `runner`. source: token ids."""
        return

    def wider(self, model: Model) -> Self | None:
        """This part with wider layers, to be settled again; None: unchanged."""
        return None

    def thaw(self) -> None:
        """Drop what `settle` froze."""
        return


def require_layers(scheme: Scheme, model: Model) -> None:
    """Raise Refused for a decoder with layers that the scheme does not compute."""
    more = () if isinstance(model.config, EncoderConfig) else model.config.unlike_llama
    mixture = not isinstance(model.config, EncoderConfig) and model.config.experts > 0
    if mixture and not scheme.experts:
        raise Refused(
            f"{type(scheme).__name__} does not compute a mixture of experts, got {model.name}; docs/your-model.md says "
            "which schemes do"
        )
    if more and not scheme.every_decoder:
        raise Refused(
            f"{type(scheme).__name__} computes Llama-like decoders, got {model.name} with "
            f"{', '.join(more)}; docs/your-model.md says which schemes compute these"
        )
