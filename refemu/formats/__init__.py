"""What a code means: element formats, block formats and their ready constants. Knows no unit and no numba."""

import importlib
import sys
from typing import Any

from refemu.arith.checks import lookup
from refemu.formats.abfloat import (
    E0M3_BIAS0,
    E0M3_BIAS1,
    E1M2_BIAS1,
    E1M2_BIAS2,
    E2M1_BIAS0,
    E2M1_BIAS2,
    E2M1_BIAS3,
    E2M5_BIAS2,
    E3M0_BIAS2,
    E3M0_BIAS4,
    E4M3_BIAS4,
    AbFloat,
)
from refemu.formats.affine import Affine
from refemu.formats.affine_tensor import AffineTensor
from refemu.formats.bfp import BFP4, BFP8, Bfp
from refemu.formats.bfp_tensor import BfpTensor
from refemu.formats.codebook import Codebook
from refemu.formats.element import Element
from refemu.formats.field import Field
from refemu.formats.flint import FLINT4, Flint
from refemu.formats.groupint import INT4_G128, GroupInt
from refemu.formats.groupint_tensor import GroupIntTensor
from refemu.formats.hetero_kv import (
    K2V4,
    K4V1,
    K4V2,
    K4V2_G24,
    K4V4,
    K4V8,
    K8V2,
    K8V4,
    K8V4_G12,
    K8V8,
    K16V16,
    HeteroKV,
)
from refemu.formats.integer import INT4, INT8, IntFormat
from refemu.formats.kllm_arith import KllmArith
from refemu.formats.kmeans import KMeans
from refemu.formats.kmeans_outliers import ThresholdCalibration, Thresholds, TopK
from refemu.formats.kmeans_tables import cartesian, function_table, squares
from refemu.formats.kmeans_tensor import KMeansTensor
from refemu.formats.kmeans_train import Histogram, train
from refemu.formats.kv_page import UnifiedPage
from refemu.formats.ovp import (
    OVP_FLINT4,
    OVP_FLINT4_REPO,
    OVP_INT4,
    OVP_INT4_REPO,
    OVP_INT8,
    OVP_INT8_REPO,
    Ovp,
)
from refemu.formats.ovp_tensor import OvpTensor
from refemu.formats.structure import Block, structure

__all__ = [
    "BFP4",
    "BFP8",
    "E0M3_BIAS0",
    "E0M3_BIAS1",
    "E1M2_BIAS1",
    "E1M2_BIAS2",
    "E2M1_BIAS0",
    "E2M1_BIAS2",
    "E2M1_BIAS3",
    "E2M5_BIAS2",
    "E3M0_BIAS2",
    "E3M0_BIAS4",
    "E4M3_BIAS4",
    "FLINT4",
    "INT4",
    "INT4_G128",
    "INT8",
    "K2V4",
    "K4V1",
    "K4V2",
    "K4V2_G24",
    "K4V4",
    "K4V8",
    "K8V2",
    "K8V4",
    "K8V4_G12",
    "K8V8",
    "K16V16",
    "OVP_FLINT4",
    "OVP_FLINT4_REPO",
    "OVP_INT4",
    "OVP_INT4_REPO",
    "OVP_INT8",
    "OVP_INT8_REPO",
    "AbFloat",
    "Affine",
    "AffineTensor",
    "Bfp",
    "BfpTensor",
    "Codebook",
    "Element",
    "Field",
    "Flint",
    "GroupInt",
    "GroupIntTensor",
    "HeteroKV",
    "Histogram",
    "IntFormat",
    "KMeans",
    "KMeansTensor",
    "KllmArith",
    "Ovp",
    "OvpTensor",
    "ThresholdCalibration",
    "Thresholds",
    "TopK",
    "UnifiedPage",
    "blocks",
    "cartesian",
    "constants",
    "find",
    "function_table",
    "squares",
    "structure",
    "train",
]

Format = Element | Ovp


def constants() -> dict[str, Format]:
    """Every ready format by the name of its constant, element formats first."""
    ready = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, Format)}
    return dict(sorted(ready.items(), key=lambda item: (isinstance(item[1], Ovp), item[0])))


def blocks() -> dict[str, Block]:
    """Every ready block format without a table of codes, by the name of its constant."""
    return {name: value for name, value in sorted(globals().items()) if name.isupper() and isinstance(value, Block)}


def find(name: str) -> Any:
    """The ready format of that name, in any case; an unknown one is refused with the nearest known name."""
    return lookup("format", name.upper().replace("-", "_"), {**constants(), **blocks()})


if "hypothesis.strategies" in sys.modules:  # whichever is imported second tells hypothesis about these types
    importlib.import_module("refemu.testing").register()
