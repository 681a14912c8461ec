"""The rival of the model rows: a Llama-like forward in float32 NumPy with BLAS, as written without refemu."""

import numpy as np


class Forward:
    """Prefill and decode with a preallocated cache; weights as float32."""

    def __init__(self, model: "object", length: int) -> None:
        config = self.config = model.config  # type: ignore[attr-defined]
        names = [name for name in config.shapes if name != "head"] + ["embed" if config.tied_head else "head"]
        self._store = {name: np.ascontiguousarray(model.tensor(name), np.float32) for name in names}  # type: ignore[attr-defined]
        self.weight = self._store.__getitem__
        shape = (config.blocks, length, config.kv_heads, config.head_dim)
        self.k, self.v, self.position = np.zeros(shape, np.float32), np.zeros(shape, np.float32), 0
        angle = np.arange(length)[:, None] * config.rope_base ** (
            -2.0 * np.arange(config.head_dim // 2) / config.head_dim
        )
        self.cos, self.sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)

    def reset(self) -> None:
        self.position = 0

    def append(self, ids: list[int]) -> np.ndarray:
        """Logits (tokens, vocab) of the tokens appended."""
        config, start, stop = self.config, self.position, self.position + len(ids)
        x = self.weight("embed")[ids]
        for block in range(config.blocks):
            x = x + self._attention(block, self._norm(x, f"blk.{block}.attn_norm"), start, stop)
            h = self._norm(x, f"blk.{block}.ffn_norm")
            gate = h @ self.weight(f"blk.{block}.gate").T
            x = (
                x
                + (gate / (1 + np.exp(-gate)) * (h @ self.weight(f"blk.{block}.up").T))
                @ self.weight(f"blk.{block}.down").T
            )
        self.position = stop
        return self._norm(x, "norm") @ self.weight("embed" if config.tied_head else "head").T

    def _attention(self, block: int, h: np.ndarray, start: int, stop: int) -> np.ndarray:
        config, count = self.config, stop - start
        q, k, v = ((h @ self.weight(f"blk.{block}.{name}").T).reshape(count, -1, config.head_dim) for name in "qkv")
        self.k[block, start:stop], self.v[block, start:stop] = self._rotate(k, start, stop), v
        q = self._rotate(q, start, stop).reshape(count, config.kv_heads, -1, config.head_dim)
        scores = np.matmul(q.transpose(1, 2, 0, 3), self.k[block, :stop].transpose(1, 2, 0)[:, None]) / np.float32(
            config.head_dim**0.5
        )
        scores = np.where(np.arange(stop) <= np.arange(start, stop)[:, None], scores, np.float32(-np.inf))
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out = np.matmul(p, self.v[block, :stop].transpose(1, 0, 2)[:, None])
        return out.transpose(2, 0, 1, 3).reshape(count, -1) @ self.weight(f"blk.{block}.o").T

    def _rotate(self, x: np.ndarray, start: int, stop: int) -> np.ndarray:
        cos, sin = self.cos[start:stop, None], self.sin[start:stop, None]
        out, (a, b) = np.empty_like(x), (x[..., 0::2], x[..., 1::2])
        out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
        return out

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(self.config.rms_eps)) * self.weight(name)
