"""Golden cases of index_product: every pair of indices [kllm §III-B1], outliers of either side, ends of fp16."""

from collections.abc import Iterator

import numpy as np

from refemu.units import Cases, Config, Kind, find
from refemu.units.stimuli import Seeds, columns, random_inputs


def cases(config: Config, kind: Kind, seed: Seeds) -> Iterator[Cases]:
    """Golden cases of one kind for one configuration."""
    ports = find("index_product").ports(config).inputs
    if kind == "paper":
        a, b = (
            side.ravel()
            for side in np.meshgrid(*(np.arange(1 << config[name]) for name in ("a_bits", "b_bits")), indexing="ij")
        )
        yield Cases(
            kind,
            "[kllm §III-B1] every pair of indices, A high, from (0, 1) on: the step that is not skipped",
            columns(a=np.roll(a, -1), b=np.roll(b, -1), a_mask=0, b_mask=0, a_value=0x3C00, b_value=0x4000),
        )
    if kind == "edge":
        why = "an outlier of A, of B, of both: the product of the values, and index 0"
        indices, masks = columns(a=[3, 3, 3], b=[5, 5, 5]), columns(a_mask=[1, 0, 1], b_mask=[0, 1, 1])
        values = columns(a_value=[0x4900, 0x3555, 1], b_value=[0xB266, 0xC900, 0x3800])
        yield Cases(kind, why, {**indices, **masks, **values}, "D-kllm-16")
        indices, masks = columns(a=[1] * 4, b=[1] * 4), columns(a_mask=[1] * 4, b_mask=[0] * 4)
        values = columns(a_value=[0x7BFF, 0x7BFF, 0x0001, 0x8001], b_value=[0x3C00, 0x3C01, 0x3800, 0x3801])
        yield Cases(kind, "products at the ends of fp16", {**indices, **masks, **values})
        indices, masks = columns(a=[1] * 8, b=[1] * 8), columns(a_mask=[1] * 8, b_mask=[0] * 8)
        ties = [0x3C01, 0x3C03, 0x4405, 0x4407]
        values = columns(a_value=ties + [word | 0x8000 for word in ties], b_value=[0x3E00] * 8)
        why = "products halfway between two fp16 values, of either sign"
        yield Cases(kind, why, {**indices, **masks, **values}, "D-arith-2")
        indices, masks = columns(a=[1] * 5, b=[1] * 5), columns(a_mask=[1, 0, 1, 0, 1], b_mask=[0, 1, 1, 1, 0])
        values = columns(a_value=[0x8001, 0x8000, 0, 0xFC00, 0xFC00], b_value=[0x3800, 0x3C00, 0x7C00, 0x8000, 0x3C00])
        why = "products of -0, the NaN of 0 by infinity, infinity without overflow"
        yield Cases(kind, why, {**indices, **masks, **values})
    if kind == "random":
        drawn = random_inputs("index_product", ports, (512,), seed)
        yield Cases(kind, "uniform indices and words, three of four products in fp16", drawn)
