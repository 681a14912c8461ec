"""What a code means: element formats, block formats and their ready constants. Knows no unit and no numba."""

from .code_format import CodeFormat
from .element import Element
from .field import Field
from .groupint import INT4_G128, GroupInt, GroupIntTensor
from .harmonia.bfp import BFP4, BFP8, Bfp, BfpTensor
from .integer import INT4, INT8, IntFormat
from .kllm.codebook import Codebook
from .kllm.kllm_arith import KllmArith
from .kllm.kmeans import KMeans
from .kllm.kmeans_outliers import ThresholdCalibration, Thresholds, TopK
from .kllm.kmeans_tables import cartesian, function_table, squares
from .kllm.kmeans_tensor import KMeansTensor
from .kllm.kmeans_train import Histogram, train
from .leankv.affine import Affine, AffineTensor
from .leankv.hetero_kv import (
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
from .leankv.kv_page import UnifiedPage
from .olive.abfloat import (
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
from .olive.flint import FLINT4, Flint
from .olive.ovp import (
    OVP_FLINT4,
    OVP_FLINT4_REPO,
    OVP_INT4,
    OVP_INT4_REPO,
    OVP_INT8,
    OVP_INT8_REPO,
    Ovp,
    OvpTensor,
)
from .presets import Block, blocks, constants, find, plugged, register, unregister
from .structure import structure

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
    "Block",
    "CodeFormat",
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
    "plugged",
    "register",
    "squares",
    "structure",
    "train",
    "unregister",
]
