"""Golden cases of index_product: every pair of indices [kllm §III-B1], outliers of either side, ends of fp16."""

import numpy as np

from refemu.units import Config
from refemu.units.stimuli import Blocks, Seeds, columns, crossed, uniform


def paper(config: Config) -> Blocks:
    every = crossed(a=np.arange(1 << config["a_bits"]), b=np.arange(1 << config["b_bits"]))
    first = {name: np.roll(words, -1) for name, words in every.items()}
    why = "[kllm §III-B1] every pair of indices, A high, from (0, 1) on: the step that is not skipped"
    yield why, columns(**first, a_mask=0, b_mask=0, a_value=0x3C00, b_value=0x4000)


def edge(config: Config) -> Blocks:
    masks = columns(a=3, b=5, a_mask=[1, 0, 1], b_mask=[0, 1, 1])
    values = columns(a_value=[0x4900, 0x3555, 1], b_value=[0xB266, 0xC900, 0x3800])
    yield "an outlier of A, of B, of both: the product of the values, and index 0", masks | values, "D-kllm-16"
    values = columns(a_value=[0x7BFF, 0x7BFF, 0x0001, 0x8001], b_value=[0x3C00, 0x3C01, 0x3800, 0x3801])
    yield "products at the ends of fp16", columns(a=1, b=1, a_mask=1, b_mask=0, **values)
    words = np.array([[0x3C01, 0x3C03, 0x4405, 0x4407], [0xBC01, 0xBC03, 0xC405, 0xC407]]).ravel()
    ties = columns(a=1, b=1, a_mask=1, b_mask=0, a_value=words, b_value=0x3E00)
    yield "products halfway between two fp16 values, of either sign", ties, "D-arith-2"
    masks = columns(a=1, b=1, a_mask=[1, 0, 1, 0, 1], b_mask=[0, 1, 1, 1, 0])
    values = columns(a_value=[0x8001, 0x8000, 0, 0xFC00, 0xFC00], b_value=[0x3800, 0x3C00, 0x7C00, 0x8000, 0x3C00])
    yield "products of -0, the NaN of 0 by infinity, infinity without overflow", masks | values


def random(config: Config, seed: Seeds) -> Blocks:
    drawn = uniform("index_product", config, (512,), seed)
    yield "uniform indices and words, three of four products in fp16", drawn
