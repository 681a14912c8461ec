"""Protocols of schemes: a frozen configuration, and the model prepared under it.

A configuration's fields are the scheme's parameters: the command line sets them by name, a manifest carries them. It
imports none of the code that runs the scheme; strings on its class name that code.
`Prepared` is the list of parts that `refemu.models.runtime` asks for. Scheme `fp16` computes every one of them
[D-arith-15]; another scheme derives from it and replaces what its paper changes.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from refemu.arith.checks import Refused
from refemu.models.backend import Backend
from refemu.models.cache import Cache, Caches
from refemu.models.config import GATED, ModelConfig
from refemu.models.model import Model
from refemu.models.taps import Watch

GROUPS = GATED  #: linear layers of a Llama-like block; a group reads one input

CalibrationTokens: TypeAlias = Sequence[int] | Sequence[Sequence[int]]  #: of one text, or of several
Progress: TypeAlias = Callable[[str, int, int], None]  #: progress(what, done, total)


def silent(what: str, done: int, total: int) -> None:
    """Report no progress."""


class Prepared(Protocol):
    """Model under a scheme, ready to run. Hidden states are float32 (tokens, width)."""

    name: str  #: name of the model
    sha256: str  #: sha256 of its weights
    model: ModelConfig  #: sizes of the model
    config: "Scheme"  #: configuration of the scheme
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
        """Learned embeddings of consecutive positions.

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
        """Make the empty KV cache of a block: `len`, `append(k, v)`.

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


class Scheme(Protocol):
    """A frozen dataclass whose fields are the scheme's parameters.

    `prepared_by` names a function "package.module:function". `models.prepare` calls it by keyword, as
    `function(config=, model=, backend=, calibration=, progress=)`: it converts the weights to the scheme's formats,
    searches or trains what the scheme needs offline, and returns a `Prepared`. calibration: token ids for schemes that
    calibrate; None stands for the model's calibration text.

    Optional class variables: `encoders` is true if the scheme also computes BERT-like encoders; for these the function
    returns a `refemu.models.encoder.runtime.PreparedEncoder`. `every_decoder` is true if it computes every decoder that
    a `ModelConfig` can describe, not only Llama-like ones. `two_phases` is true if a prompt is not computed like the
    tokens after it. `tapped_by` names a function, as `prepared_by` does, that takes the configuration and returns the
    names of the units whose ports a run can show. `machine_by` names a `refemu.models.machine.runner.Machine`, which
    carries a block through the ports of the paper's units, `costed_by` a `refemu.models.machine.cost.Costs`.
    """

    paper: ClassVar[str]  #: "olive §3.4", or where else the scheme is defined
    prepared_by: ClassVar[str]  #: "refemu.models.schemes.olive.decoder:prepare"


def require_layers(scheme: Any, model: Model) -> None:
    """Refuse a decoder with layers that the scheme does not compute."""
    more = getattr(model.config, "unlike_llama", ())
    if more and not getattr(scheme, "every_decoder", False):
        raise Refused(
            f"{type(scheme).__name__} computes Llama-like decoders, and {model.name} has "
            f"{', '.join(more)}; docs/models.md says which schemes compute these"
        )
