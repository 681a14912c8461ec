"""Scheme `fp16` on BERT-like encoders: the parts for `refemu.models.encoder.runtime` [D-arith-15].

Linear layers are those of the decoders with a bias added in float32 before the rounding; LayerNorm is a sequence of
float32 steps rounded once; GELU is the correctly rounded fp16 table of the form with erf.
"""

import numpy as np

from refemu.models.backend import Backend
from refemu.models.encoder.config import BIAS, EncoderConfig
from refemu.models.model import Model
from refemu.models.prepared import tensors
from refemu.models.schemes.fp16.layers import Fp16Layers
from refemu.models.schemes.scheme import Progress, Scheme


class Fp16Encoder(Fp16Layers):
    """A BERT-like encoder under scheme `fp16`."""

    model: EncoderConfig

    def __init__(self, model: Model, config: Scheme, backend: Backend, progress: Progress) -> None:
        super().__init__(model, config, backend, progress)
        self._scale = np.float32(1.0 / np.sqrt(np.float64(self.model.head_dim)))
        self._eps = self.model.norm_eps  # rounded to float32 at its use
        self._position = tensors.half(self._fp16, model, "position")
        self._type = tensors.half(self._fp16, model, "token_type")[0].astype(np.float32)

    def embeddings(self, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Word + position, + token type 0: fp16 values added in float32, the sum as `add` rounds it (D-arith-16)."""
        return self.add(self.embed(ids) + self._position[positions].astype(np.float32), self._type)

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """LayerNorm, gain and bias rounded once to fp16; both sums in ascending order."""
        return self.backend.layernorm(x, self._vectors[name], self._vectors[name + BIAS], self._eps)

    def attention(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Attention of every token to every token of one text, (tokens, heads, head_dim) each; one rounding.

        The queries of a head become heads of one token at the last position, all with the keys of that head: causal
        attention then computes what each of them needs.
        """
        tokens, heads, dim = q.shape
        queries = np.ascontiguousarray(q.transpose(1, 0, 2)).reshape(1, heads * tokens, dim)
        mixed = self.backend.attention(queries, k, v, self._scale, tokens - 1)
        return np.ascontiguousarray(mixed.reshape(heads, tokens, dim).transpose(1, 0, 2)).reshape(tokens, -1)

    def activation(self, x: np.ndarray) -> np.ndarray:
        """GELU (erf form) by table."""
        return self.backend.apply16("gelu_erf", x)
