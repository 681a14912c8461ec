"""The reader of pages: pages and a table entry in; keys, values, scores and positions of their tokens out.

Paper: [leankv §5.2, §6.2]. It is what a kernel computes that dequantizes a page.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np

from refemu.arith import fp16
from refemu.formats.leankv.affine import WORD, Affine
from refemu.formats.leankv.kv_page import UnifiedPage
from refemu.units import AnyUnit, Changes, Combinational, Config, Lanes, Port, Ports, Result, Unit, constant, decides
from refemu.units.declaration import DeclaredState
from refemu.units.leankv.page_table import HIGH
from refemu.units.leankv.paged_attention import Paging, require_runs
from refemu.units.unit import RunFunction

__all__ = ["UNIT", "PageReader", "State", "run"]

Output: TypeAlias = Literal["fp32", "fp16"]  #: type of keys and values


class PageReader(Combinational, Paging):
    """Reader of the pages of one KV head: tokens of high pages, then of low pages, in the order of their slots.

    Lanes after the last token are 0. [leankv §5.2, §6.2]
    """

    name = "page_reader"
    events: ClassVar[tuple[str, ...]] = ("read",)
    counters: ClassVar[dict[str, str]] = {"pages": "pages read", "words": "16-bit words of tokens read"}
    cells: Annotated[int, 1, 1 << 16] = 4  #: cells of the table entry, and pages on the port, 1 to 65536
    output: Output = "fp32"  #: type of keys and values (D-leankv-74)

    def check(self) -> None:
        _ = self.layouts  # rejects pages that hold no token

    @constant
    def ports(self) -> Ports:
        high, low = self.layouts.sections
        most = [self.cells * high.tokens, self.cells * low.tokens if self.layouts.low else 0]
        tokens, bits = max(self.cells * high.tokens, most[1]), 32 if self.output == "fp32" else 16
        vectors = tokens * self.head_size
        return Ports(
            inputs=(
                Port("images", 16, self.cells * high.size // 2, meaning="pages, word by word"),
                Port("entry", 32, self.cells, most=self.cells - 1, meaning="high pages from left, low from right"),
                Port("n_high", 32, least=1, most=most[0], meaning="tokens in high pages"),
                Port("n_low", 32, most=most[1], meaning="tokens in low pages"),
            ),
            outputs=(
                Port("key", bits, vectors, encoding=f"f{bits}", meaning="keys, token by token: high slots, low slots"),
                Port("value", bits, vectors, encoding=f"f{bits}", meaning="values, as key"),
                Port("score", 32, tokens, encoding="f32", meaning="scores, as stored"),
                Port("position", 32, tokens, signed=True, meaning="positions, as stored"),
            ),
        )

    @constant
    def initial(self) -> Mapping[str, Any]:
        return {"n_high": 1}

    def read(self, images: Lanes, entry: Lanes, n_high: int, n_low: int) -> Changes:
        """Read every token of the head."""
        pages = np.array(images, np.uint16).reshape(self.cells, -1)
        parts: dict[str, list[int]] = {port.name: [] for port in self.ports.outputs}
        count = words = 0
        for section, tokens in enumerate((n_high, n_low)):
            layout = self.layouts.sections[section]
            for first in range(0, tokens, layout.tokens):
                number = first // layout.tokens
                image = pages[entry[number if section == HIGH else self.cells - 1 - number]]
                records = layout.read(image, np.arange(min(layout.tokens, tokens - first)))
                for name, patterns in self._tokens(layout, records).items():
                    parts[name] += patterns.ravel().tolist()
                count, words = count + 1, words + records.size
        padded = {
            port.name: (*parts[port.name], *(0,) * (port.count - len(parts[port.name]))) for port in self.ports.outputs
        }
        return {**padded, "pages": count, "words": words}

    def _tokens(self, layout: UnifiedPage, records: np.ndarray) -> dict[str, np.ndarray]:
        """Lanes of the output ports of the tokens of a page, port by port."""
        key, key_meta, value, value_meta, score, position = (records[:, part] for part in layout.parts.values())
        config, preset = layout.config, self.preset
        return {
            "key": self._stored(self._values(config.key(preset), key, key_meta)),
            "value": self._stored(self._values(config.value(preset), value, value_meta)),
            "score": _joined(score),
            "position": _joined(position).view(np.int32),
        }

    def _values(self, fmt: Affine, words: np.ndarray, meta: np.ndarray) -> np.ndarray:
        """Values (tokens, F) of codes (tokens, packs) and of scale and zero of each group (tokens, 2 * groups)."""
        codes = self._unpacked(words, fmt.bits)
        if fmt.bits == WORD:
            return fp16.to_f32(fp16.values(codes))
        pairs = fp16.to_f32(fp16.values(meta)).reshape(len(meta), fmt.groups, 2, 1)
        grouped = codes.reshape(len(codes), fmt.groups, -1)
        values = self._value(grouped, pairs[:, :, 0], pairs[:, :, 1], -1 if fmt.zero == "neg_min" else 1)
        return values.reshape(codes.shape)

    @decides("D-leankv-11")
    def _unpacked(self, words: np.ndarray, bits: int) -> np.ndarray:
        """Codes of words, the first in the lowest bits."""
        shifts = np.arange(0, WORD, bits, dtype=np.uint16)
        codes = words[..., None] >> shifts & np.uint16((1 << bits) - 1)
        return codes.reshape(*words.shape[:-1], -1)

    @decides("D-leankv-74")
    def _value(self, codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, sign: int) -> np.ndarray:
        """scale * code + sign * zero in float32, rounded once: the product is exact."""
        with np.errstate(all="ignore"):
            return fp16.canonical(scale * codes.astype(np.float32) + np.float32(sign) * zero)

    @decides("D-leankv-74", "D-arith-2")
    def _stored(self, values: np.ndarray) -> np.ndarray:
        """Patterns of float32 values in the type of the output."""
        return values.view(np.uint32) if self.output == "fp32" else fp16.bits(fp16.narrow(values))

    def _require(self, *inputs: np.ndarray) -> None:
        """Reject table entries that are too short for the tokens."""
        _, entry, n_high, n_low = inputs
        cells = entry.reshape(-1, self.cells).astype(np.int64)
        lengths = np.stack([n_high.reshape(-1), n_low.reshape(-1)], axis=-1).astype(np.int64)
        require_runs(self.layouts, self.cells, cells, lengths, self.name)


def _joined(halves: np.ndarray) -> np.ndarray:
    """Patterns of 32 bits, (tokens,), of words (tokens, 2), the low one first."""
    return halves[:, 0].astype(np.uint32) | halves[:, 1].astype(np.uint32) << np.uint32(16)


SMALL = {"head_size": 64, "high": "K8V4", "low": "K4V2", "page_bytes": 384, "cells": 6}
PAGE = {"head_size": 128, "high": "K8V4", "low": None, "page_bytes": 6784, "cells": 1}  #: the paper's page
UNIT: AnyUnit = Unit(
    unit_class=PageReader,
    paper="leankv §5.2, §6.2",
    meaning="keys, values, scores and positions of the pages of a KV head",
    configs={
        "paper": Config(**SMALL, preset="paper", output="fp32"),
        "fp16": Config(**SMALL, preset="paper", output="fp16"),
        "diffkv": Config(**SMALL, preset="diffkv", output="fp16"),
        "page": Config(**PAGE, preset="paper", output="fp16"),
    },
)
State: type[DeclaredState] = PageReader.State
run: RunFunction[Result] = UNIT.run
