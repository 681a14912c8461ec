"""Hardware blocks by name. Written by tools/stubs.py; do not edit."""

from functools import cached_property
from types import ModuleType
from typing import Any, Literal, Protocol, overload

import numpy
from numpy.typing import ArrayLike

import refemu.formats.kllm.kllm_arith
import refemu.formats.olive.ovp
import refemu.units.harmonia.bfp_accumulator
import refemu.units.harmonia.bfp_aligner
import refemu.units.harmonia.bfp_converter.registers
import refemu.units.harmonia.bfp_converter.unit
import refemu.units.harmonia.bfp_pe.registers
import refemu.units.harmonia.bfp_pe.unit
import refemu.units.harmonia.bfp_pe_array.unit
import refemu.units.harmonia.bfp_pe_array_clocked.registers
import refemu.units.harmonia.bfp_pe_array_clocked.unit
import refemu.units.harmonia.bit_allocator
import refemu.units.harmonia.fdgf
import refemu.units.harmonia.fp2half
import refemu.units.harmonia.harmonia_core.core
import refemu.units.harmonia.harmonia_core.ports
import refemu.units.harmonia.harmonia_core_clocked.registers
import refemu.units.harmonia.harmonia_core_clocked.unit
import refemu.units.harmonia.k_offset
import refemu.units.harmonia.sub_pe
import refemu.units.harmonia.v_grouper
import refemu.units.kllm.clustering
import refemu.units.kllm.concat
import refemu.units.kllm.fp16_mac.unit
import refemu.units.kllm.functional
import refemu.units.kllm.index_counter
import refemu.units.kllm.index_function
import refemu.units.kllm.index_matmul.unit
import refemu.units.kllm.index_norm.unit
import refemu.units.kllm.index_product
import refemu.units.kllm.kllm_chip.state
import refemu.units.kllm.kllm_chip.unit
import refemu.units.kllm.orizuru.unit
import refemu.units.kllm.orizuru_clocked
import refemu.units.kllm.orizuru_passes
import refemu.units.kllm.pe_lane.registers
import refemu.units.kllm.pe_lane.unit
import refemu.units.kllm.score_quantizer
import refemu.units.kllm.weighted_sum
import refemu.units.leankv.free_page_list
import refemu.units.leankv.generation_compressor.unit
import refemu.units.leankv.kv_compressor.unit
import refemu.units.leankv.kv_quantizer
import refemu.units.leankv.layer_step.unit
import refemu.units.leankv.page_manager.registers
import refemu.units.leankv.page_manager.unit
import refemu.units.leankv.page_table
import refemu.units.leankv.paged_attention.ports
import refemu.units.leankv.paged_attention.unit
import refemu.units.leankv.prefix_sum
import refemu.units.leankv.prompt_compressor
import refemu.units.leankv.significance
import refemu.units.olive.flint_decoder
import refemu.units.olive.mmaovp
import refemu.units.olive.mmaovp_clocked
import refemu.units.olive.olive_edp
import refemu.units.olive.olive_edp_clocked
import refemu.units.olive.olive_mac
import refemu.units.olive.olive_pe8
import refemu.units.olive.olive_requant
import refemu.units.olive.olive_systolic
import refemu.units.olive.olive_systolic_clocked.registers
import refemu.units.olive.olive_systolic_clocked.unit
import refemu.units.olive.outlier_decoder
import refemu.units.olive.ovp_decoder
import refemu.units.olive.ovp_encoder
from refemu.plugins import Broken
from refemu.units.ports import Port as Port, Ports as Ports
from refemu.units.stepped import Clocked as Clocked, Result as Result, Stepped as Stepped
from refemu.units.unit import Alternative as Alternative, AnyUnit as AnyUnit, Cases as Cases, Config as Config
from refemu.units.declared import Changes as Changes, Combinational as Combinational, DeclaredState
from refemu.units.declared import Sequential as Sequential, constant as constant
from refemu.units.derived import twin as twin
from refemu.units.faults import FaultLibrary as FaultLibrary
from refemu.units.unit import Flag as Flag, Kind as Kind, RunFunction as RunFunction, Unit as Unit, choices as choices
from refemu.units.harmonia import bfp_accumulator as bfp_accumulator
from refemu.units.harmonia import bfp_aligner as bfp_aligner
from refemu.units.harmonia import bfp_converter as bfp_converter
from refemu.units.harmonia import bfp_pe as bfp_pe
from refemu.units.harmonia import bfp_pe_array as bfp_pe_array
from refemu.units.harmonia import bfp_pe_array_clocked as bfp_pe_array_clocked
from refemu.units.harmonia import bit_allocator as bit_allocator
from refemu.units.kllm import clustering as clustering
from refemu.units.kllm import concat as concat
from refemu.units.harmonia import fdgf as fdgf
from refemu.units.olive import flint_decoder as flint_decoder
from refemu.units.kllm import fp16_mac as fp16_mac
from refemu.units.harmonia import fp2half as fp2half
from refemu.units.leankv import free_page_list as free_page_list
from refemu.units.kllm import functional as functional
from refemu.units.leankv import generation_compressor as generation_compressor
from refemu.units.harmonia import harmonia_core as harmonia_core
from refemu.units.harmonia import harmonia_core_clocked as harmonia_core_clocked
from refemu.units.kllm import index_counter as index_counter
from refemu.units.kllm import index_function as index_function
from refemu.units.kllm import index_matmul as index_matmul
from refemu.units.kllm import index_norm as index_norm
from refemu.units.kllm import index_product as index_product
from refemu.units.harmonia import k_offset as k_offset
from refemu.units.kllm import kllm_chip as kllm_chip
from refemu.units.leankv import kv_compressor as kv_compressor
from refemu.units.leankv import kv_quantizer as kv_quantizer
from refemu.units.leankv import layer_step as layer_step
from refemu.units.olive import mmaovp as mmaovp
from refemu.units.olive import mmaovp_clocked as mmaovp_clocked
from refemu.units.olive import olive_edp as olive_edp
from refemu.units.olive import olive_edp_clocked as olive_edp_clocked
from refemu.units.olive import olive_mac as olive_mac
from refemu.units.olive import olive_pe8 as olive_pe8
from refemu.units.olive import olive_requant as olive_requant
from refemu.units.olive import olive_systolic as olive_systolic
from refemu.units.olive import olive_systolic_clocked as olive_systolic_clocked
from refemu.units.kllm import orizuru as orizuru
from refemu.units.kllm import orizuru_clocked as orizuru_clocked
from refemu.units.kllm import orizuru_passes as orizuru_passes
from refemu.units.olive import outlier_decoder as outlier_decoder
from refemu.units.olive import ovp_decoder as ovp_decoder
from refemu.units.olive import ovp_encoder as ovp_encoder
from refemu.units.leankv import page_manager as page_manager
from refemu.units.leankv import page_table as page_table
from refemu.units.leankv import paged_attention as paged_attention
from refemu.units.kllm import pe_lane as pe_lane
from refemu.units.leankv import prefix_sum as prefix_sum
from refemu.units.leankv import prompt_compressor as prompt_compressor
from refemu.units.kllm import score_quantizer as score_quantizer
from refemu.units.leankv import significance as significance
from refemu.units.harmonia import sub_pe as sub_pe
from refemu.units.harmonia import v_grouper as v_grouper
from refemu.units.kllm import weighted_sum as weighted_sum

__all__ = ['PAPERS', 'Alternative', 'AnyUnit', 'Cases', 'Changes', 'Clocked', 'Combinational', 'Config', 'FaultLibrary', 'Flag', 'Kind', 'Port', 'Ports', 'Result', 'RunFunction', 'Sequential', 'Stepped', 'Unit', 'broken', 'called', 'choices', 'choose', 'configurations', 'constant', 'find', 'module', 'names', 'plugged', 'register', 'register_faults', 'twin', 'unregister', 'unregister_faults', 'working']

class _BfpAccumulatorResult(Result):
    p: numpy.ndarray
    value: numpy.ndarray
    acc: numpy.ndarray
    flags: numpy.ndarray
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int

class _BfpAccumulatorState(DeclaredState):
    event: str
    index: int
    mode: int
    clear: int
    psum: int
    low: int
    a_exp: int
    b_exp: int
    w_scale: int
    p: int
    value: int
    acc: int
    flags: int
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int

class _BfpAccumulatorDevice(refemu.units.harmonia.bfp_accumulator.Accumulator):
    def step(self, mode: int, clear: int, psum: int, low: int, a_exp: int, b_exp: int, w_scale: int) -> _BfpAccumulatorState: ...
    def snapshot(self) -> _BfpAccumulatorState: ...

class _BfpAccumulatorRun(Protocol):
    def __call__(self, mode: ArrayLike, clear: ArrayLike, psum: ArrayLike, low: ArrayLike, a_exp: ArrayLike, b_exp: ArrayLike, w_scale: ArrayLike, *, partial: Literal['fp16', 'fp32'] = ..., product: Literal['fp16', 'fp32'] = ...) -> _BfpAccumulatorResult: ...

class _BfpAccumulatorUnit(Unit[DeclaredState, _BfpAccumulatorResult]):
    run: _BfpAccumulatorRun
    unit_class: type[_BfpAccumulatorDevice]
    @cached_property
    def run_jit(self) -> _BfpAccumulatorRun: ...

class _BfpAlignerResult(Result):
    sign: numpy.ndarray
    mantissa: numpy.ndarray
    illegal: numpy.ndarray
    aligned: int
    illegals: int

class _BfpAlignerState(DeclaredState):
    event: str
    index: int
    x: tuple[int, ...]
    emax: tuple[int, ...]
    m: int
    sign: tuple[int, ...]
    mantissa: tuple[int, ...]
    illegal: tuple[int, ...]
    aligned: int
    illegals: int

class _BfpAlignerDevice(refemu.units.harmonia.bfp_aligner.BfpAligner):
    def step(self, x: tuple[int, ...], emax: tuple[int, ...], m: int) -> _BfpAlignerState: ...
    def snapshot(self) -> _BfpAlignerState: ...

class _BfpAlignerRun(Protocol):
    def __call__(self, x: ArrayLike, emax: ArrayLike, m: ArrayLike, *, rounding: Literal['truncate', 'half_even', 'half_away', 'floor'] = ..., special: Literal['error', 'hw', 'saturate'] = ..., subnormals: Literal['keep', 'flush'] = ..., zero_sign: Literal['keep', 'canonical'] = ...) -> _BfpAlignerResult: ...

class _BfpAlignerUnit(Unit[DeclaredState, _BfpAlignerResult]):
    run: _BfpAlignerRun
    unit_class: type[_BfpAlignerDevice]
    @cached_property
    def run_jit(self) -> _BfpAlignerRun: ...

class _BfpConverterResult(Result):
    sign: numpy.ndarray
    mantissa: numpy.ndarray
    exponent: numpy.ndarray
    out_valid: numpy.ndarray
    out_kind: numpy.ndarray
    element: numpy.ndarray
    subgroup: numpy.ndarray
    ready: numpy.ndarray
    emax: numpy.ndarray
    align_emax: numpy.ndarray
    filled: numpy.ndarray
    position: numpy.ndarray
    compare_cycles: int
    align_cycles: int
    comparisons: int
    aligned: int

class _BfpConverterRun(Protocol):
    def __call__(self, x: ArrayLike, valid: ArrayLike, kind: ArrayLike, m: ArrayLike, last: ArrayLike, column_valid: ArrayLike | None = ..., *, rounding: Literal['truncate', 'half_even', 'half_away', 'floor'] = ..., special: Literal['error', 'hw', 'saturate'] = ..., subnormals: Literal['keep', 'flush'] = ..., zero_sign: Literal['keep', 'canonical'] = ...) -> _BfpConverterResult: ...

class _BfpConverterUnit(Unit[refemu.units.harmonia.bfp_converter.registers.State, _BfpConverterResult]):
    run: _BfpConverterRun
    unit_class: type[refemu.units.harmonia.bfp_converter.unit.BfpConverter]
    @cached_property
    def run_jit(self) -> _BfpConverterRun: ...

class _BfpPeResult(Result):
    acc: numpy.ndarray
    flags: numpy.ndarray
    psum: numpy.ndarray
    value: numpy.ndarray
    slot: numpy.ndarray
    latched: numpy.ndarray
    current_sign: numpy.ndarray
    current_mag: numpy.ndarray
    current_exp: numpy.ndarray
    next_sign: numpy.ndarray
    next_mag: numpy.ndarray
    next_exp: numpy.ndarray
    todo: numpy.ndarray
    passes: int
    cycles: int
    macs: int
    macs4x8: int
    psums: int
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int

class _BfpPeRun(Protocol):
    def __call__(self, mode: ArrayLike, a_sign: ArrayLike, a_mag: ArrayLike, a_exp: ArrayLike, b: ArrayLike, b_sign: ArrayLike | None = ..., b_exp: ArrayLike = ..., w_scale: ArrayLike = ..., clear: ArrayLike = ..., *, partial: Literal['fp16', 'fp32'] = ..., product: Literal['fp16', 'fp32'] = ...) -> _BfpPeResult: ...

class _BfpPeUnit(Unit[refemu.units.harmonia.bfp_pe.registers.State, _BfpPeResult]):
    run: _BfpPeRun
    unit_class: type[refemu.units.harmonia.bfp_pe.unit.BfpPe]
    @cached_property
    def run_jit(self) -> _BfpPeRun: ...

class _BfpPeArrayResult(Result):
    acc: numpy.ndarray
    flags: numpy.ndarray
    valid: numpy.ndarray
    col: numpy.ndarray
    column: numpy.ndarray
    column_valid: numpy.ndarray
    cycles: int
    macs: int
    fp32_adds: int
    act_hops: int
    weight_broadcasts: int
    busy_pe_cycles: int

class _BfpPeArrayRun(Protocol):
    def __call__(self, mode: ArrayLike, row_valid: ArrayLike, col_valid: ArrayLike, a_sign: ArrayLike, a_mag: ArrayLike, a_exp: ArrayLike, b: ArrayLike, b_sign: ArrayLike, b_exp: ArrayLike, w_scale: ArrayLike, *, groups: int = ..., partial: Literal['fp16', 'fp32'] = ..., product: Literal['fp16', 'fp32'] = ...) -> _BfpPeArrayResult: ...

class _BfpPeArrayUnit(Unit[refemu.units.harmonia.bfp_pe_array.unit.State, _BfpPeArrayResult]):
    run: _BfpPeArrayRun
    unit_class: type[refemu.units.harmonia.bfp_pe_array.unit.BfpPeArray]
    @cached_property
    def run_jit(self) -> _BfpPeArrayRun: ...

class _BfpPeArrayClockedResult(Result):
    acc: numpy.ndarray
    flags: numpy.ndarray
    valid: numpy.ndarray
    col: numpy.ndarray
    busy: numpy.ndarray
    arrived: numpy.ndarray
    sub_pes: numpy.ndarray
    waiting: numpy.ndarray
    b_waiting: numpy.ndarray
    left: numpy.ndarray
    next_mode: numpy.ndarray
    next_clear: numpy.ndarray
    next_last: numpy.ndarray
    next_rows: numpy.ndarray
    next_columns: numpy.ndarray
    next_groups: numpy.ndarray | None
    next_b: numpy.ndarray
    next_b_sign: numpy.ndarray
    next_b_exp: numpy.ndarray
    next_w_scale: numpy.ndarray
    current_mode: numpy.ndarray
    current_clear: numpy.ndarray
    current_last: numpy.ndarray
    current_rows: numpy.ndarray
    current_columns: numpy.ndarray
    current_groups: numpy.ndarray | None
    current_b: numpy.ndarray
    current_b_sign: numpy.ndarray
    current_b_exp: numpy.ndarray
    current_w_scale: numpy.ndarray
    next_sign: numpy.ndarray
    next_mag: numpy.ndarray
    next_exp: numpy.ndarray
    current_sign: numpy.ndarray
    current_mag: numpy.ndarray
    current_exp: numpy.ndarray
    latched: numpy.ndarray
    pe_mode: numpy.ndarray
    slot: numpy.ndarray
    sums: numpy.ndarray
    sum_flags: numpy.ndarray
    cycles: int
    compute_cycles: int
    macs: int
    macs4x8: int
    psums: int
    fusions: int
    fp_converts: int
    scale_mults: int
    fp32_adds: int
    act_hops: int
    weight_broadcasts: int
    busy_pe_cycles: int
    lost: int
    missed: int

class _BfpPeArrayClockedRun(Protocol):
    def __call__(self, mode: ArrayLike, clear: ArrayLike, last: ArrayLike, groups: ArrayLike | None = ..., a_valid: ArrayLike | None = ..., col_valid: ArrayLike | None = ..., a_sign: ArrayLike | None = ..., a_mag: ArrayLike | None = ..., a_exp: ArrayLike | None = ..., b_valid: ArrayLike | None = ..., b: ArrayLike | None = ..., b_sign: ArrayLike | None = ..., b_exp: ArrayLike | None = ..., w_scale: ArrayLike | None = ..., *, rows: int = ..., columns: int = ..., partial: Literal['fp16', 'fp32'] = ..., product: Literal['fp16', 'fp32'] = ..., activity: Literal['by_slot', 'parallel'] = ..., overlap: bool = ...) -> _BfpPeArrayClockedResult: ...

class _BfpPeArrayClockedUnit(Unit[refemu.units.harmonia.bfp_pe_array_clocked.registers.State, _BfpPeArrayClockedResult]):
    run: _BfpPeArrayClockedRun
    unit_class: type[refemu.units.harmonia.bfp_pe_array_clocked.unit.BfpPeArrayClocked]
    @cached_property
    def run_jit(self) -> _BfpPeArrayClockedRun: ...

class _BitAllocatorResult(Result):
    tokens: numpy.ndarray
    demote_k: numpy.ndarray
    k_token: numpy.ndarray
    demote_v: numpy.ndarray
    v_group: numpy.ndarray
    low_tokens: numpy.ndarray
    low_groups: numpy.ndarray
    demoted_tokens: int
    demoted_groups: int

class _BitAllocatorState(DeclaredState):
    event: str
    index: int
    prefill: int
    tokens: int
    demote_k: int
    k_token: int
    demote_v: int
    v_group: int
    low_tokens: int
    low_groups: int
    demoted_tokens: int
    demoted_groups: int

class _BitAllocatorDevice(refemu.units.harmonia.bit_allocator.BitAllocator):
    def step(self, prefill: int) -> _BitAllocatorState: ...
    def snapshot(self) -> _BitAllocatorState: ...

class _BitAllocatorRun(Protocol):
    def __call__(self, prefill: ArrayLike, *, n_initial: int = ..., n_local: int = ..., high: int = ..., low: int = ..., group: int = ...) -> _BitAllocatorResult: ...

class _BitAllocatorUnit(Unit[DeclaredState, _BitAllocatorResult]):
    run: _BitAllocatorRun
    unit_class: type[_BitAllocatorDevice]
    @cached_property
    def run_jit(self) -> _BitAllocatorRun: ...

class _ClusteringResult(Result):
    index: numpy.ndarray
    overflow: numpy.ndarray
    x_hat: numpy.ndarray
    compared: numpy.ndarray
    distances: int
    cycles: int

class _ClusteringState(DeclaredState):
    event: str
    element: int
    x: int
    scale: int
    codebook: tuple[int, ...]
    index: int
    overflow: int
    x_hat: int
    compared: tuple[int, ...]
    distances: int
    cycles: int

class _ClusteringDevice(refemu.units.kllm.clustering.Clustering):
    def step(self, x: int, scale: int, codebook: tuple[int, ...]) -> _ClusteringState: ...
    def snapshot(self) -> _ClusteringState: ...

class _ClusteringRun(Protocol):
    def __call__(self, x: ArrayLike, scale: ArrayLike, codebook: ArrayLike, *, bits: int = ..., preset: Literal['paper', 'exact'] | refemu.formats.kllm.kllm_arith.KllmArith = ..., lanes: int = ...) -> _ClusteringResult: ...

class _ClusteringUnit(Unit[DeclaredState, _ClusteringResult]):
    run: _ClusteringRun
    unit_class: type[_ClusteringDevice]
    @cached_property
    def run_jit(self) -> _ClusteringRun: ...

class _ConcatResult(Result):
    q: numpy.ndarray
    concats: int

class _ConcatState(DeclaredState):
    event: str
    index: int
    a: int
    b: int
    q: int
    concats: int

class _ConcatDevice(refemu.units.kllm.concat.Concat):
    def step(self, a: int, b: int) -> _ConcatState: ...
    def snapshot(self) -> _ConcatState: ...

class _ConcatRun(Protocol):
    def __call__(self, a: ArrayLike, b: ArrayLike, *, a_bits: int = ..., b_bits: int = ...) -> _ConcatResult: ...

class _ConcatUnit(Unit[DeclaredState, _ConcatResult]):
    run: _ConcatRun
    unit_class: type[_ConcatDevice]
    @cached_property
    def run_jit(self) -> _ConcatRun: ...

class _FdgfResult(Result):
    code: numpy.ndarray
    dataflow: numpy.ndarray
    mt: numpy.ndarray
    kt: numpy.ndarray
    count: numpy.ndarray
    a_address: numpy.ndarray
    b_address: numpy.ndarray
    fetched: numpy.ndarray
    sizes: numpy.ndarray
    blocks_v: numpy.ndarray
    place: numpy.ndarray
    group: numpy.ndarray
    fetches: int
    computes: int
    reads: int
    stores: int

class _FdgfState(DeclaredState):
    event: str
    index: int
    start: int
    rows: int
    inner: int
    columns: int
    forced: int
    v: int
    code: int
    dataflow: int
    mt: int
    kt: int
    count: int
    a_address: int
    b_address: int
    fetched: int
    sizes: tuple[int, ...]
    blocks_v: int
    place: int
    group: int
    fetches: int
    computes: int
    reads: int
    stores: int

class _FdgfDevice(refemu.units.harmonia.fdgf.FdgfController):
    def step(self, start: int, rows: int, inner: int, columns: int, forced: int, v: int) -> _FdgfState: ...
    def snapshot(self) -> _FdgfState: ...

class _FdgfRun(Protocol):
    def __call__(self, start: ArrayLike, rows: ArrayLike, inner: ArrayLike, columns: ArrayLike, forced: ArrayLike = ..., v: ArrayLike = ..., *, m: int = ..., k: int = ..., ema_unit: Literal['elements', 'bits'] = ..., b_type: Literal['int4', 'bfp8', 'bfp4'] = ...) -> _FdgfResult: ...

class _FdgfUnit(Unit[DeclaredState, _FdgfResult]):
    run: _FdgfRun
    unit_class: type[_FdgfDevice]
    @cached_property
    def run_jit(self) -> _FdgfRun: ...

class _FlintDecoderResult(Result):
    exponent: numpy.ndarray
    base_int: numpy.ndarray
    decodes: int

class _FlintDecoderState(DeclaredState):
    event: str
    index: int
    code: int
    exponent: int
    base_int: int
    decodes: int

class _FlintDecoderDevice(refemu.units.olive.flint_decoder.FlintDecoder):
    def step(self, code: int) -> _FlintDecoderState: ...
    def snapshot(self) -> _FlintDecoderState: ...

class _FlintDecoderRun(Protocol):
    def __call__(self, code: ArrayLike, *, pairs: tuple[tuple[int, int], ...] = ...) -> _FlintDecoderResult: ...

class _FlintDecoderUnit(Unit[DeclaredState, _FlintDecoderResult]):
    run: _FlintDecoderRun
    unit_class: type[_FlintDecoderDevice]
    @cached_property
    def run_jit(self) -> _FlintDecoderRun: ...

class _Fp16MacResult(Result):
    y: numpy.ndarray
    overflow: numpy.ndarray | None
    product: numpy.ndarray
    fflags: numpy.ndarray | None
    macs: int
    overflows: int

class _Fp16MacState(DeclaredState):
    event: str
    index: int
    a: int
    b: int
    acc: int
    y: int
    overflow: int
    product: int
    rm: int
    fflags: int
    macs: int
    overflows: int

class _Fp16MacDevice(refemu.units.kllm.fp16_mac.unit.Fp16Mac):
    def step(self, a: int, b: int, acc: int, rm: int | None = ...) -> _Fp16MacState: ...
    def snapshot(self) -> _Fp16MacState: ...

class _Fp16MacRun(Protocol):
    def __call__(self, a: ArrayLike, b: ArrayLike, acc: ArrayLike, rm: ArrayLike | None = ..., *, rounding: Literal['fp16', 'fp16_fma'] = ..., direction: Literal['half_even', 'truncate', 'floor', 'ceil', 'half_away'] | Literal['dynamic'] = ..., ieee_flags: bool = ..., tininess: Literal['after', 'before'] = ..., inf_zero_nan: Literal['invalid', 'quiet'] = ...) -> _Fp16MacResult: ...

class _Fp16MacUnit(Unit[DeclaredState, _Fp16MacResult]):
    run: _Fp16MacRun
    unit_class: type[_Fp16MacDevice]
    @cached_property
    def run_jit(self) -> _Fp16MacRun: ...

class _Fp2halfResult(Result):
    y: numpy.ndarray
    overflow: numpy.ndarray
    columns: int
    overflows: int

class _Fp2halfState(DeclaredState):
    event: str
    index: int
    x: tuple[int, ...]
    y: tuple[int, ...]
    overflow: tuple[int, ...]
    columns: int
    overflows: int

class _Fp2halfDevice(refemu.units.harmonia.fp2half.Fp2Half):
    def step(self, x: tuple[int, ...]) -> _Fp2halfState: ...
    def snapshot(self) -> _Fp2halfState: ...

class _Fp2halfRun(Protocol):
    def __call__(self, x: ArrayLike, *, saturate: bool = ...) -> _Fp2halfResult: ...

class _Fp2halfUnit(Unit[DeclaredState, _Fp2halfResult]):
    run: _Fp2halfRun
    unit_class: type[_Fp2halfDevice]
    @cached_property
    def run_jit(self) -> _Fp2halfRun: ...

class _FreePageListResult(Result):
    taken: numpy.ndarray
    list_start: numpy.ndarray
    list_end: numpy.ndarray
    free: numpy.ndarray
    ring: numpy.ndarray
    head: numpy.ndarray
    tail: numpy.ndarray
    allocated: int
    recycled: int
    wraps: int

class _FreePageListRun(Protocol):
    def __call__(self, op: ArrayLike, count: ArrayLike, ids: ArrayLike, *, pages: int = ...) -> _FreePageListResult: ...

class _FreePageListUnit(Unit[refemu.units.leankv.free_page_list.State, _FreePageListResult]):
    run: _FreePageListRun
    unit_class: type[refemu.units.leankv.free_page_list.FreePageList]
    @cached_property
    def run_jit(self) -> _FreePageListRun: ...

class _FunctionalRun(Protocol):
    def __call__(self, x: ArrayLike, *, op: Literal['exp', 'sqrt', 'recip', 'softmax'] = ..., t: int = ..., softmax: Literal['fp16', 'softmax32'] = ...) -> refemu.units.kllm.functional.Result: ...

class _FunctionalUnit(Unit[refemu.units.kllm.functional.State, refemu.units.kllm.functional.Result]):
    run: _FunctionalRun
    unit_class: type[refemu.units.kllm.functional.Functional]
    @cached_property
    def run_jit(self) -> _FunctionalRun: ...

class _GenerationCompressorResult(Result):
    choice: numpy.ndarray
    victim: numpy.ndarray
    low_slot: numpy.ndarray
    delta_high: numpy.ndarray
    delta_low: numpy.ndarray
    means: numpy.ndarray
    total: numpy.ndarray
    shares: numpy.ndarray
    slots: numpy.ndarray
    done: numpy.ndarray
    divisions: int
    comparisons: int

class _GenerationCompressorState(DeclaredState):
    event: str
    index: int
    score: tuple[int, ...]
    position: tuple[int, ...]
    n_high: int
    n_low: int
    n: int
    prompt: int
    window: int
    thresholds: tuple[int, ...]
    choice: int
    victim: int
    low_slot: int
    delta_high: int
    delta_low: int
    means: tuple[int, ...]
    total: int
    shares: tuple[int, ...]
    slots: tuple[int, ...]
    done: int
    divisions: int
    comparisons: int

class _GenerationCompressorDevice(refemu.units.leankv.generation_compressor.unit.GenerationCompressor):
    def step(self, score: tuple[int, ...] | None = ..., position: tuple[int, ...] | None = ..., n_high: int | None = ..., n_low: int | None = ..., n: int | None = ..., prompt: int | None = ..., window: int | None = ..., thresholds: tuple[int, ...] | None = ...) -> _GenerationCompressorState: ...
    def snapshot(self) -> _GenerationCompressorState: ...

class _GenerationCompressorRun(Protocol):
    def __call__(self, score: ArrayLike, position: ArrayLike, n_high: ArrayLike, n_low: ArrayLike, n: ArrayLike, prompt: ArrayLike, window: ArrayLike, thresholds: ArrayLike, *, slots: int = ..., policy: Literal['algorithm1', 'diffkv', 'static'] = ..., score_rule: Literal['share', 'cumulative'] = ..., low: bool = ..., keep_percent: int = ..., score_queries: int | None = ..., include_self: bool = ..., epoch: bool = ...) -> _GenerationCompressorResult: ...

class _GenerationCompressorUnit(Unit[DeclaredState, _GenerationCompressorResult]):
    run: _GenerationCompressorRun
    unit_class: type[_GenerationCompressorDevice]
    @cached_property
    def run_jit(self) -> _GenerationCompressorRun: ...

class _HarmoniaCoreRun(Protocol):
    def __call__(self, a_sign: ArrayLike, a_mag: ArrayLike, a_exp: ArrayLike, b: ArrayLike, b_sign: ArrayLike, b_exp: ArrayLike, w_scale: ArrayLike, frozen: ArrayLike | None = ..., position: ArrayLike | None = ..., wide: ArrayLike | None = ..., bias: ArrayLike | None = ..., *, kind: Literal['q', 'k', 'v', 'score', 'context', 'linear', 'final'] = ..., rows: int = ..., inner: int = ..., columns: int = ..., b_type: Literal['int4', 'bfp8', 'bfp4', 'mixed'] = ..., m: int = ..., tile_m: int = ..., tile_k: int = ..., head_dim: int = ..., start: int = ..., base: int = ..., activation: Literal['none', 'silu', 'relu', 'gelu_erf', 'gelu_tanh'] = ..., force: int = ..., partial: Literal['fp16', 'fp32'] = ..., rotation: Literal['half', 'interleaved', 'none'] = ..., window: int = ..., positions: Literal['start', 'port'] = ..., bias_add: Literal['none', 'after', 'accumulator'] = ..., codes: Literal['sets', 'rows'] = ...) -> refemu.units.harmonia.harmonia_core.ports.Result: ...

class _HarmoniaCoreUnit(Unit[refemu.units.harmonia.harmonia_core.ports.State, refemu.units.harmonia.harmonia_core.ports.Result]):
    run: _HarmoniaCoreRun
    unit_class: type[refemu.units.harmonia.harmonia_core.core.HarmoniaCore]
    @cached_property
    def run_jit(self) -> _HarmoniaCoreRun: ...

class _HarmoniaCoreClockedRun(Protocol):
    def __call__(self, go: ArrayLike, a_sign: ArrayLike, a_mag: ArrayLike, a_exp: ArrayLike, b: ArrayLike, b_sign: ArrayLike, b_exp: ArrayLike, w_scale: ArrayLike, bias: ArrayLike | None = ..., frozen: ArrayLike | None = ..., position: ArrayLike | None = ..., wide: ArrayLike | None = ..., *, kind: Literal['q', 'k', 'v', 'score', 'context', 'linear', 'final'] = ..., rows: int = ..., inner: int = ..., columns: int = ..., b_type: Literal['int4', 'bfp8', 'bfp4', 'mixed'] = ..., m: int = ..., tile_m: int = ..., tile_k: int = ..., head_dim: int = ..., start: int = ..., base: int = ..., activation: Literal['none', 'silu', 'relu', 'gelu_erf', 'gelu_tanh'] = ..., force: int = ..., partial: Literal['fp16', 'fp32'] = ..., rotation: Literal['half', 'interleaved', 'none'] = ..., window: int = ..., positions: Literal['start', 'port'] = ..., bias_add: Literal['none', 'after', 'accumulator'] = ..., codes: Literal['sets', 'rows'] = ...) -> refemu.units.harmonia.harmonia_core_clocked.registers.Result: ...

class _HarmoniaCoreClockedUnit(Unit[refemu.units.harmonia.harmonia_core_clocked.registers.State, refemu.units.harmonia.harmonia_core_clocked.registers.Result]):
    run: _HarmoniaCoreClockedRun
    unit_class: type[refemu.units.harmonia.harmonia_core_clocked.unit.HarmoniaCoreClocked]
    @cached_property
    def run_jit(self) -> _HarmoniaCoreClockedRun: ...

class _IndexCounterState(DeclaredState):
    event: str
    index: int
    clear: int
    q: tuple[int, ...]
    valid: tuple[int, ...]
    count: tuple[int, ...]
    one_hot: tuple[int, ...]
    sums: tuple[int, ...]
    hits: tuple[int, ...]
    amount: tuple[int, ...]
    count_bits: Any
    indices: int
    cycles: int

class _IndexCounterDevice(refemu.units.kllm.index_counter.IndexCounter):
    def step(self, clear: int, q: tuple[int, ...], valid: tuple[int, ...], amount: tuple[int, ...] | None = ...) -> _IndexCounterState: ...
    def snapshot(self) -> _IndexCounterState: ...

class _IndexCounterRun(Protocol):
    def __call__(self, clear: ArrayLike, q: ArrayLike, valid: ArrayLike, amount: ArrayLike | None = ..., *, bits: int = ..., amount_bits: int = ..., counter_bits: int = ..., lanes: int = ...) -> refemu.units.kllm.index_counter.Result: ...

class _IndexCounterUnit(Unit[DeclaredState, refemu.units.kllm.index_counter.Result]):
    run: _IndexCounterRun
    unit_class: type[_IndexCounterDevice]
    @cached_property
    def run_jit(self) -> _IndexCounterRun: ...

class _IndexFunctionRun(Protocol):
    def __call__(self, codebook: ArrayLike, scale: ArrayLike, outlier: ArrayLike, *, function: Literal['exp', 'exp2', 'log', 'tanh', 'sigmoid', 'silu', 'gelu_erf', 'gelu_tanh', 'rsqrt', 'recip', 'sqrt'] | Literal['relu'] | numpy.ndarray = ..., bits: int = ..., outliers: int = ..., mode: Literal['token', 'offline', 'literal'] = ...) -> refemu.units.kllm.index_function.Result: ...

class _IndexFunctionUnit(Unit[refemu.units.kllm.index_function.State, refemu.units.kllm.index_function.Result]):
    run: _IndexFunctionRun
    unit_class: type[refemu.units.kllm.index_function.IndexFunction]
    @cached_property
    def run_jit(self) -> _IndexFunctionRun: ...

class _IndexMatmulRun(Protocol):
    def __call__(self, a_index: ArrayLike, a_mask: ArrayLike | None = ..., a_outlier: ArrayLike | None = ..., a_scale: ArrayLike | None = ..., a_codebook: ArrayLike | None = ..., b_index: ArrayLike | None = ..., b_scale: ArrayLike | None = ..., b_codebook: ArrayLike | None = ..., products: ArrayLike | None = ..., shift: ArrayLike | None = ..., row_sum: ArrayLike | None = ..., bias: ArrayLike | None = ..., b_mask: ArrayLike | None = ..., b_outlier: ArrayLike | None = ..., *, k: int = ..., a_bits: int = ..., b_bits: int = ..., integer: bool = ..., preset: Literal['paper', 'exact'] | refemu.formats.kllm.kllm_arith.KllmArith = ..., biased: bool = ..., norm: Literal['none', 'rms', 'layer'] = ...) -> refemu.units.kllm.index_matmul.unit.Result: ...

class _IndexMatmulUnit(Unit[refemu.units.kllm.index_matmul.unit.State, refemu.units.kllm.index_matmul.unit.Result]):
    run: _IndexMatmulRun
    unit_class: type[refemu.units.kllm.index_matmul.unit.IndexMatmul]
    @cached_property
    def run_jit(self) -> _IndexMatmulRun: ...

class _IndexNormRun(Protocol):
    def __call__(self, q: ArrayLike, mask: ArrayLike, x: ArrayLike, scale: ArrayLike, centroids: ArrayLike | None = ..., squares: ArrayLike | None = ..., weights: ArrayLike | None = ..., *, n: int, bits: int = ..., weight_bits: int = ..., norm: Literal['rms', 'layer'] = ..., eps: float = ..., preset: Literal['paper', 'exact'] | refemu.formats.kllm.kllm_arith.KllmArith = ...) -> refemu.units.kllm.index_norm.unit.Result: ...

class _IndexNormUnit(Unit[refemu.units.kllm.index_norm.unit.State, refemu.units.kllm.index_norm.unit.Result]):
    run: _IndexNormRun
    unit_class: type[refemu.units.kllm.index_norm.unit.IndexNorm]
    @cached_property
    def run_jit(self) -> _IndexNormRun: ...

class _IndexProductState(DeclaredState):
    event: str
    index: int
    a: int
    b: int
    a_mask: int
    b_mask: int
    a_value: int
    b_value: int
    q: int
    mask: int
    outlier: int
    overflow: int
    concats: int
    products_sparse: int
    overflows: int

class _IndexProductDevice(refemu.units.kllm.index_product.IndexProduct):
    def step(self, a: int, b: int, a_mask: int, b_mask: int, a_value: int, b_value: int) -> _IndexProductState: ...
    def snapshot(self) -> _IndexProductState: ...

class _IndexProductRun(Protocol):
    def __call__(self, a: ArrayLike, b: ArrayLike, a_mask: ArrayLike, b_mask: ArrayLike, a_value: ArrayLike, b_value: ArrayLike, *, a_bits: int = ..., b_bits: int = ...) -> refemu.units.kllm.index_product.Result: ...

class _IndexProductUnit(Unit[DeclaredState, refemu.units.kllm.index_product.Result]):
    run: _IndexProductRun
    unit_class: type[_IndexProductDevice]
    @cached_property
    def run_jit(self) -> _IndexProductRun: ...

class _KOffsetResult(Result):
    offset: numpy.ndarray
    selected: numpy.ndarray
    k_out: numpy.ndarray
    out_valid: numpy.ndarray
    ready: numpy.ndarray
    peak: numpy.ndarray
    negative: numpy.ndarray
    written: numpy.ndarray
    read: numpy.ndarray
    chosen: numpy.ndarray
    frozen: numpy.ndarray
    rows: numpy.ndarray | None
    comparisons: int
    select_comparisons: int
    subtractions: int
    gated_tokens: int

class _KOffsetState(DeclaredState):
    event: str
    index: int
    k: tuple[int, ...]
    valid: int
    last: int
    offset: tuple[int, ...]
    selected: tuple[int, ...]
    k_out: tuple[int, ...]
    out_valid: int
    ready: int
    peak: tuple[int, ...]
    negative: tuple[int, ...]
    written: int
    read: int
    chosen: int
    frozen: int
    rows: tuple[int, ...]
    comparisons: int
    select_comparisons: int
    subtractions: int
    gated_tokens: int

class _KOffsetDevice(refemu.units.harmonia.k_offset.KOffsetGenerator):
    def step(self, k: tuple[int, ...], valid: int, last: int) -> _KOffsetState: ...
    def snapshot(self) -> _KOffsetState: ...

class _KOffsetRun(Protocol):
    def __call__(self, k: ArrayLike, valid: ArrayLike, last: ArrayLike, *, channels: int = ..., window: int = ..., offset_k: int | None = ..., offset_scope: Literal['layer', 'head'] = ..., heads: int = ..., offset_sign: Literal['signed', 'unsigned'] = ...) -> _KOffsetResult: ...

class _KOffsetUnit(Unit[DeclaredState, _KOffsetResult]):
    run: _KOffsetRun
    unit_class: type[_KOffsetDevice]
    @cached_property
    def run_jit(self) -> _KOffsetRun: ...

class _KllmChipResult(Result):
    y: numpy.ndarray
    overflow: numpy.ndarray
    a_index: numpy.ndarray
    a_mask: numpy.ndarray
    a_scale: numpy.ndarray
    cycles_taken: numpy.ndarray
    z: numpy.ndarray | None
    top: numpy.ndarray | None
    terms: numpy.ndarray | None
    total: numpy.ndarray | None
    cycles: int
    search_cycles: int
    cluster_cycles: int
    edges: int
    comparisons: int
    distances: int
    count_cycles: int
    stalls: int
    merge_cycles: int
    mac_cycles: int
    tiles: int
    concats: int
    indices: int
    lookups: int
    macs_reduce: int
    macs_sparse: int
    dequants: int
    mults_scale: int
    adds_merge: int
    overflows: int
    function_cycles: int
    exps: int
    roots: int
    divides: int

class _KllmChipRun(Protocol):
    def __call__(self, x: ArrayLike, a_codebook: ArrayLike, b_index: ArrayLike, b_scale: ArrayLike, b_codebook: ArrayLike, products: ArrayLike, *, k: int = ..., n: int = ..., a_bits: int = ..., b_bits: int = ..., pops: int = ..., sizes: tuple[int, ...] = ..., tree: int = ..., lane_mapping: Literal['column', 'counter'] = ..., merge: Literal['tree', 'serial'] = ..., carry: Literal['counts', 'sums'] = ..., function: Literal['none', 'exp', 'sqrt', 'recip', 'softmax'] = ..., softmax: Literal['fp16', 'softmax32'] = ...) -> _KllmChipResult: ...

class _KllmChipUnit(Unit[refemu.units.kllm.kllm_chip.state.State, _KllmChipResult]):
    run: _KllmChipRun
    unit_class: type[refemu.units.kllm.kllm_chip.unit.KllmChip]
    @cached_property
    def run_jit(self) -> _KllmChipRun: ...

class _KvCompressorResult(Result):
    written: numpy.ndarray
    moved: numpy.ndarray
    n_high: numpy.ndarray
    n_low: numpy.ndarray
    high: numpy.ndarray
    low: numpy.ndarray
    tokens_written: int
    requantized: int
    pruned: int

class _KvCompressorRun(Protocol):
    def __call__(self, op: ArrayLike, victim: ArrayLike, low_slot: ArrayLike, key: ArrayLike, value: ArrayLike, score: ArrayLike, position: ArrayLike, *, head_size: int = ..., high: Literal['K8V8', 'K8V4', 'K8V2', 'K4V4', 'K4V2', 'K4V1', 'K4V8', 'K2V4', 'K16V16', 'K8V4_G12', 'K4V2_G24'] = ..., low: Literal['K8V8', 'K8V4', 'K8V2', 'K4V4', 'K4V2', 'K4V1', 'K4V8', 'K2V4', 'K16V16', 'K8V4_G12', 'K4V2_G24'] = ..., page_bytes: int = ..., preset: Literal['paper', 'diffkv'] = ..., high_pages: int = ..., low_pages: int = ..., k_vec: int = ..., k_group: int = ..., v_vec: int = ..., v_group: int = ..., align: tuple[int, int] = ...) -> _KvCompressorResult: ...

class _KvCompressorUnit(Unit[refemu.units.leankv.kv_compressor.unit.State, _KvCompressorResult]):
    run: _KvCompressorRun
    unit_class: type[refemu.units.leankv.kv_compressor.unit.KvCompressor]
    @cached_property
    def run_jit(self) -> _KvCompressorRun: ...

class _KvQuantizerResult(Result):
    mn: numpy.ndarray
    mx: numpy.ndarray
    s32: numpy.ndarray
    inv32: numpy.ndarray
    scale: numpy.ndarray
    zero: numpy.ndarray
    words: numpy.ndarray
    status: numpy.ndarray
    element: numpy.ndarray
    written: numpy.ndarray
    comparisons: int
    divisions: int
    multiplications: int
    roundings: int

class _KvQuantizerState(DeclaredState):
    event: str
    index: int
    x: tuple[int, ...]
    bits: int
    mn: int
    mx: int
    s32: int
    inv32: int
    scale: int
    zero: int
    words: tuple[int, ...]
    status: int
    element: int
    written: int
    comparisons: int
    divisions: int
    multiplications: int
    roundings: int

class _KvQuantizerDevice(refemu.units.leankv.kv_quantizer.KvQuantizer):
    def step(self, x: tuple[int, ...] | None = ..., bits: int | None = ...) -> _KvQuantizerState: ...
    def snapshot(self) -> _KvQuantizerState: ...

class _KvQuantizerRun(Protocol):
    def __call__(self, x: ArrayLike, bits: ArrayLike, *, features: int = ..., preset: Literal['paper', 'diffkv'] = ..., quantize_with: Literal['unrounded', 'stored'] = ...) -> _KvQuantizerResult: ...

class _KvQuantizerUnit(Unit[DeclaredState, _KvQuantizerResult]):
    run: _KvQuantizerRun
    unit_class: type[_KvQuantizerDevice]
    @cached_property
    def run_jit(self) -> _KvQuantizerRun: ...

class _LayerStepResult(Result):
    choice: numpy.ndarray
    victim: numpy.ndarray
    low_slot: numpy.ndarray
    taken: numpy.ndarray
    written: numpy.ndarray
    moved: numpy.ndarray
    out: numpy.ndarray
    p: numpy.ndarray
    scores: numpy.ndarray
    seen: numpy.ndarray
    stored: numpy.ndarray
    loaded: numpy.ndarray
    cells: numpy.ndarray
    list_start: numpy.ndarray
    free: numpy.ndarray
    allocated: int
    recycled: int
    levels: int
    adds: int
    pruned: int
    share_divisions: int
    comparisons: int
    tokens_written: int
    requantized: int
    plan_words: int
    move_words: int
    record_words: int
    pages_read: int
    key_words: int
    key_meta_words: int
    val_words: int
    val_meta_words: int
    score_words: int
    pos_words: int
    key_sectors: int
    key_meta_sectors: int
    val_sectors: int
    val_meta_sectors: int
    score_sectors: int
    pos_sectors: int
    macs: int
    exps: int
    softmax_divisions: int

class _LayerStepState(DeclaredState):
    event: str
    index: int
    op: int
    prompt: int
    keep_high: int | tuple[int, ...]
    keep_low: int | tuple[int, ...]
    section: int | tuple[int, ...]
    score: int | tuple[int, ...]
    position: int | tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    q: tuple[int, ...]
    window: int
    thresholds: tuple[int, ...]
    choice: int | tuple[int, ...]
    victim: int | tuple[int, ...]
    low_slot: int | tuple[int, ...]
    taken: tuple[int, ...]
    written: tuple[int, ...]
    moved: tuple[int, ...]
    out: tuple[int, ...]
    p: tuple[int, ...]
    scores: tuple[int, ...]
    seen: int
    stored: tuple[int, ...]
    loaded: tuple[int, ...]
    cells: tuple[int, ...]
    list_start: int
    free: int
    head: Any
    pool: Any
    manager: Any
    heads: Any
    allocated: int
    recycled: int
    levels: int
    adds: int
    pruned: int
    share_divisions: int
    comparisons: int
    tokens_written: int
    requantized: int
    plan_words: int
    move_words: int
    record_words: int
    pages_read: int
    key_words: int
    key_meta_words: int
    val_words: int
    val_meta_words: int
    score_words: int
    pos_words: int
    key_sectors: int
    key_meta_sectors: int
    val_sectors: int
    val_meta_sectors: int
    score_sectors: int
    pos_sectors: int
    macs: int
    exps: int
    softmax_divisions: int

class _LayerStepDevice(refemu.units.leankv.layer_step.unit.LayerStep):
    def step(self, op: int | None = ..., prompt: int | None = ..., keep_high: int | tuple[int, ...] | None = ..., keep_low: int | tuple[int, ...] | None = ..., section: int | tuple[int, ...] | None = ..., score: int | tuple[int, ...] | None = ..., position: int | tuple[int, ...] | None = ..., key: tuple[int, ...] | None = ..., value: tuple[int, ...] | None = ..., q: tuple[int, ...] | None = ..., window: int | None = ..., thresholds: tuple[int, ...] | None = ...) -> _LayerStepState: ...
    def snapshot(self) -> _LayerStepState: ...

class _LayerStepRun(Protocol):
    def __call__(self, op: ArrayLike, prompt: ArrayLike, keep_high: ArrayLike, keep_low: ArrayLike, section: ArrayLike, score: ArrayLike, position: ArrayLike, key: ArrayLike, value: ArrayLike, q: ArrayLike, window: ArrayLike, thresholds: ArrayLike, *, kv_heads: int = ..., head_size: int = ..., heads: int = ..., high: Literal['K8V8', 'K8V4', 'K8V2', 'K4V4', 'K4V2', 'K4V1', 'K4V8', 'K2V4', 'K16V16', 'K8V4_G12', 'K4V2_G24'] = ..., low: Literal['K8V8', 'K8V4', 'K8V2', 'K4V4', 'K4V2', 'K4V1', 'K4V8', 'K2V4', 'K16V16', 'K8V4_G12', 'K4V2_G24'] | None = ..., page_bytes: int | None = ..., pages: int = ..., max_len: int = ..., preset: Literal['paper', 'diffkv'] = ..., policy: Literal['algorithm1', 'diffkv', 'static'] = ..., score_rule: Literal['share', 'cumulative'] = ..., keep_percent: int = ..., score_queries: int | None = ..., include_self: bool = ..., epoch: bool = ..., order: Literal['kernel', 'sequential'] = ..., fma: bool = ..., softmax_div: Literal['div', 'recip_mul'] = ..., softmax_eps: float = ..., lane_max: bool = ..., partition_tokens: int = ..., partition_score: bool = ..., gqa: Literal['max', 'mean'] = ..., reserve_low: int = ..., table_extra: int = ..., table_tokens: int | None = ..., lazy_pages: bool = ..., scrub: bool = ..., k_vec: int = ..., k_group: int = ..., v_vec: int = ..., v_group: int = ..., align: tuple[int, int] = ...) -> _LayerStepResult: ...

class _LayerStepUnit(Unit[DeclaredState, _LayerStepResult]):
    run: _LayerStepRun
    unit_class: type[_LayerStepDevice]
    @cached_property
    def run_jit(self) -> _LayerStepRun: ...

class _MmaovpResult(Result):
    d: numpy.ndarray
    overflow: numpy.ndarray
    illegal: numpy.ndarray
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int
    cycles: int

class _MmaovpState(DeclaredState):
    event: str
    index: int
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: tuple[int, ...]
    d: tuple[int, ...]
    overflow: tuple[int, ...]
    illegal: int
    phase: Any
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int
    cycles: int

class _MmaovpDevice(refemu.units.olive.mmaovp.MmaOvp):
    def step(self, a_pairs: tuple[int, ...] | None = ..., b_pairs: tuple[int, ...] | None = ..., bias_a: int | None = ..., bias_b: int | None = ..., c: tuple[int, ...] | None = ...) -> _MmaovpState: ...
    def snapshot(self) -> _MmaovpState: ...

class _MmaovpRun(Protocol):
    def __call__(self, a_pairs: ArrayLike, b_pairs: ArrayLike, bias_a: ArrayLike, bias_b: ArrayLike, c: ArrayLike, *, a_type: Literal['ovpi4', 'ovpf4', 'ovpi8', 'ovpi8_repo'] = ..., b_type: Literal['ovpi4', 'ovpf4', 'ovpi8', 'ovpi8_repo'] = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ...) -> _MmaovpResult: ...

class _MmaovpUnit(Unit[DeclaredState, _MmaovpResult]):
    run: _MmaovpRun
    unit_class: type[_MmaovpDevice]
    @cached_property
    def run_jit(self) -> _MmaovpRun: ...

class _MmaovpClockedResult(Result):
    d: numpy.ndarray
    overflow: numpy.ndarray
    illegal: numpy.ndarray
    busy: numpy.ndarray
    valid: numpy.ndarray
    phase: numpy.ndarray
    a_pairs_held: numpy.ndarray
    b_pairs_held: numpy.ndarray
    bias_a_held: numpy.ndarray
    bias_b_held: numpy.ndarray
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int
    cycles: int

class _MmaovpClockedState(DeclaredState):
    event: str
    index: int
    start: int
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: tuple[int, ...]
    d: tuple[int, ...]
    overflow: tuple[int, ...]
    illegal: int
    busy: int
    valid: int
    phase: int
    a_pairs_held: tuple[int, ...]
    b_pairs_held: tuple[int, ...]
    bias_a_held: int
    bias_b_held: int
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int
    cycles: int

class _MmaovpClockedDevice(refemu.units.olive.mmaovp_clocked.ClockedMmaOvp):
    def step(self, start: int, a_pairs: tuple[int, ...], b_pairs: tuple[int, ...], bias_a: int, bias_b: int, c: tuple[int, ...]) -> _MmaovpClockedState: ...
    def snapshot(self) -> _MmaovpClockedState: ...

class _MmaovpClockedRun(Protocol):
    def __call__(self, start: ArrayLike, a_pairs: ArrayLike, b_pairs: ArrayLike, bias_a: ArrayLike, bias_b: ArrayLike, c: ArrayLike, *, a_type: Literal['ovpi4', 'ovpf4', 'ovpi8', 'ovpi8_repo'] = ..., b_type: Literal['ovpi4', 'ovpf4', 'ovpi8', 'ovpi8_repo'] = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ...) -> _MmaovpClockedResult: ...

class _MmaovpClockedUnit(Unit[DeclaredState, _MmaovpClockedResult]):
    run: _MmaovpClockedRun
    unit_class: type[_MmaovpClockedDevice]
    @cached_property
    def run_jit(self) -> _MmaovpClockedRun: ...

class _OliveEdpResult(Result):
    d: numpy.ndarray
    overflow: numpy.ndarray
    illegal: numpy.ndarray
    a_exponent: numpy.ndarray
    a_int: numpy.ndarray
    b_exponent: numpy.ndarray
    b_int: numpy.ndarray
    shifts: numpy.ndarray
    products: numpy.ndarray
    shifted: numpy.ndarray
    above: numpy.ndarray
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int

class _OliveEdpState(DeclaredState):
    event: str
    index: int
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: int
    d: int
    overflow: int
    illegal: int
    a_exponent: tuple[int, ...]
    a_int: tuple[int, ...]
    b_exponent: tuple[int, ...]
    b_int: tuple[int, ...]
    shifts: tuple[int, ...]
    products: tuple[int, ...]
    shifted: tuple[int, ...]
    above: tuple[int, ...]
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int

class _OliveEdpDevice(refemu.units.olive.olive_edp.DotProductUnit):
    def step(self, a_pairs: tuple[int, ...] | None = ..., b_pairs: tuple[int, ...] | None = ..., bias_a: int | None = ..., bias_b: int | None = ..., c: int | None = ...) -> _OliveEdpState: ...
    def snapshot(self) -> _OliveEdpState: ...

class _OliveEdpRun(Protocol):
    def __call__(self, a_pairs: ArrayLike, b_pairs: ArrayLike, bias_a: ArrayLike, bias_b: ArrayLike, c: ArrayLike, *, a: Literal['int4', 'flint4', 'int8', 'int8_repo'] = ..., b: Literal['int4', 'flint4', 'int8', 'int8_repo'] = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ...) -> _OliveEdpResult: ...

class _OliveEdpUnit(Unit[DeclaredState, _OliveEdpResult]):
    run: _OliveEdpRun
    unit_class: type[_OliveEdpDevice]
    @cached_property
    def run_jit(self) -> _OliveEdpRun: ...

class _OliveEdpClockedResult(Result):
    d: numpy.ndarray
    overflow: numpy.ndarray
    illegal: numpy.ndarray
    busy: numpy.ndarray
    valid: numpy.ndarray
    phase: numpy.ndarray
    c_held: numpy.ndarray
    a_exponent: numpy.ndarray
    a_int: numpy.ndarray
    b_exponent: numpy.ndarray
    b_int: numpy.ndarray
    shifts: numpy.ndarray
    products: numpy.ndarray
    shifted: numpy.ndarray
    above: numpy.ndarray
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int

class _OliveEdpClockedState(DeclaredState):
    event: str
    index: int
    start: int
    a_pairs: tuple[int, ...]
    b_pairs: tuple[int, ...]
    bias_a: int
    bias_b: int
    c: int
    d: int
    overflow: int
    illegal: int
    busy: int
    valid: int
    phase: int
    c_held: int
    a_exponent: tuple[int, ...]
    a_int: tuple[int, ...]
    b_exponent: tuple[int, ...]
    b_int: tuple[int, ...]
    shifts: tuple[int, ...]
    products: tuple[int, ...]
    shifted: tuple[int, ...]
    above: tuple[int, ...]
    operations: int
    macs: int
    decodes: int
    overflows: int
    illegal_operations: int

class _OliveEdpClockedDevice(refemu.units.olive.olive_edp_clocked.ClockedDotProductUnit):
    def step(self, start: int, a_pairs: tuple[int, ...], b_pairs: tuple[int, ...], bias_a: int, bias_b: int, c: int) -> _OliveEdpClockedState: ...
    def snapshot(self) -> _OliveEdpClockedState: ...

class _OliveEdpClockedRun(Protocol):
    def __call__(self, start: ArrayLike, a_pairs: ArrayLike, b_pairs: ArrayLike, bias_a: ArrayLike, bias_b: ArrayLike, c: ArrayLike, *, a: Literal['int4', 'flint4', 'int8', 'int8_repo'] = ..., b: Literal['int4', 'flint4', 'int8', 'int8_repo'] = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ...) -> _OliveEdpClockedResult: ...

class _OliveEdpClockedUnit(Unit[DeclaredState, _OliveEdpClockedResult]):
    run: _OliveEdpClockedRun
    unit_class: type[_OliveEdpClockedDevice]
    @cached_property
    def run_jit(self) -> _OliveEdpClockedRun: ...

class _OliveMacResult(Result):
    shift: numpy.ndarray
    product: numpy.ndarray
    acc: numpy.ndarray
    overflow: numpy.ndarray
    macs: int
    overflows: int

class _OliveMacState(DeclaredState):
    event: str
    index: int
    load: int
    acc_in: int
    a_exp: int
    a_int: int
    b_exp: int
    b_int: int
    shift: int
    product: int
    acc: int
    overflow: int
    macs: int
    overflows: int

class _OliveMacDevice(refemu.units.olive.olive_mac.OliveMac):
    def step(self, load: int, acc_in: int, a_exp: int, a_int: int, b_exp: int, b_int: int) -> _OliveMacState: ...
    def snapshot(self) -> _OliveMacState: ...

class _OliveMacRun(Protocol):
    def __call__(self, load: ArrayLike, acc_in: ArrayLike, a_exp: ArrayLike, a_int: ArrayLike, b_exp: ArrayLike, b_int: ArrayLike, *, exponent_bits: int = ..., int_bits: int = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ...) -> _OliveMacResult: ...

class _OliveMacUnit(Unit[DeclaredState, _OliveMacResult]):
    run: _OliveMacRun
    unit_class: type[_OliveMacDevice]
    @cached_property
    def run_jit(self) -> _OliveMacRun: ...

class _OlivePe8Result(Result):
    partial: numpy.ndarray
    shift: numpy.ndarray
    acc: numpy.ndarray
    overflow: numpy.ndarray
    macs: int
    pe_multiplications: int
    overflows: int

class _OlivePe8State(DeclaredState):
    event: str
    index: int
    load: int
    acc_in: int
    x_exp: int
    x_int: int
    y_exp: int
    y_int: int
    partial: tuple[int, ...]
    shift: tuple[int, ...]
    acc: int
    overflow: int
    macs: int
    pe_multiplications: int
    overflows: int

class _OlivePe8Device(refemu.units.olive.olive_pe8.OlivePe8):
    def step(self, load: int, acc_in: int, x_exp: int, x_int: int, y_exp: int, y_int: int) -> _OlivePe8State: ...
    def snapshot(self) -> _OlivePe8State: ...

class _OlivePe8Run(Protocol):
    def __call__(self, load: ArrayLike, acc_in: ArrayLike, x_exp: ArrayLike, x_int: ArrayLike, y_exp: ArrayLike, y_int: ArrayLike, *, split: Literal['twos_complement', 'sign_magnitude'] = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ...) -> _OlivePe8Result: ...

class _OlivePe8Unit(Unit[DeclaredState, _OlivePe8Result]):
    run: _OlivePe8Run
    unit_class: type[_OlivePe8Device]
    @cached_property
    def run_jit(self) -> _OlivePe8Run: ...

class _OliveRequantResult(Result):
    y: numpy.ndarray
    overflow: numpy.ndarray
    pair: numpy.ndarray
    kind: numpy.ndarray
    saturated: numpy.ndarray
    raised: numpy.ndarray
    acc_f32: numpy.ndarray
    rescale: numpy.ndarray
    scaled: numpy.ndarray
    biased: numpy.ndarray
    grid: numpy.ndarray
    inexact_sums: int
    overflows: int
    wide_quotients: int
    pairs: int
    left_outliers: int
    right_outliers: int
    pruned_outliers: int
    victims: int
    saturated_pairs: int
    raised_pairs: int
    clamped_normals: int

class _OliveRequantState(DeclaredState):
    event: str
    index: int
    acc: tuple[int, ...]
    scale_a: int
    scale_w: tuple[int, ...]
    bias: tuple[int, ...]
    scale_next: int
    y: tuple[int, ...]
    overflow: tuple[int, ...]
    pair: int
    kind: int
    saturated: int
    raised: int
    acc_f32: tuple[int, ...]
    rescale: tuple[int, ...]
    scaled: tuple[int, ...]
    biased: tuple[int, ...]
    grid: tuple[int, ...]
    inexact_sums: int
    overflows: int
    wide_quotients: int
    pairs: int
    left_outliers: int
    right_outliers: int
    pruned_outliers: int
    victims: int
    saturated_pairs: int
    raised_pairs: int
    clamped_normals: int

class _OliveRequantDevice(refemu.units.olive.olive_requant.OliveRequant):
    def step(self, acc: tuple[int, ...], scale_a: int, scale_w: tuple[int, ...], bias: tuple[int, ...], scale_next: int) -> _OliveRequantState: ...
    def snapshot(self) -> _OliveRequantState: ...

class _OliveRequantRun(Protocol):
    def __call__(self, acc: ArrayLike, scale_a: ArrayLike, scale_w: ArrayLike, bias: ArrayLike, scale_next: ArrayLike, *, fmt: Literal['OVP_FLINT4', 'OVP_FLINT4_REPO', 'OVP_INT4', 'OVP_INT4_REPO', 'OVP_INT8', 'OVP_INT8_REPO'] | refemu.formats.olive.ovp.Ovp = ...) -> _OliveRequantResult: ...

class _OliveRequantUnit(Unit[DeclaredState, _OliveRequantResult]):
    run: _OliveRequantRun
    unit_class: type[_OliveRequantDevice]
    @cached_property
    def run_jit(self) -> _OliveRequantRun: ...

class _OliveSystolicResult(Result):
    d: numpy.ndarray
    overflow: numpy.ndarray
    illegal: numpy.ndarray
    cycles: int
    compute_cycles: int
    drain_cycles: int
    decodes: int
    macs: int
    idle: int
    overflows: int

class _OliveSystolicRun(Protocol):
    def __call__(self, a_pairs: ArrayLike, b_pairs: ArrayLike, bias_a: ArrayLike, bias_b: ArrayLike, *, rows: int = ..., cols: int = ..., m: int = ..., n: int = ..., k: int = ..., a: Literal['int4', 'flint4', 'int8', 'int8_repo'] = ..., b: Literal['int4', 'flint4', 'int8', 'int8_repo'] = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ...) -> _OliveSystolicResult: ...

class _OliveSystolicUnit(Unit[refemu.units.olive.olive_systolic.State, _OliveSystolicResult]):
    run: _OliveSystolicRun
    unit_class: type[refemu.units.olive.olive_systolic.OliveSystolic]
    @cached_property
    def run_jit(self) -> _OliveSystolicRun: ...

class _OliveSystolicClockedResult(Result):
    south: numpy.ndarray
    south_overflow: numpy.ndarray
    illegal: numpy.ndarray
    mode: numpy.ndarray
    west_held_valid: numpy.ndarray
    west_held_exponent: numpy.ndarray
    west_held_integer: numpy.ndarray
    north_held_valid: numpy.ndarray
    north_held_exponent: numpy.ndarray
    north_held_integer: numpy.ndarray
    a_valid: numpy.ndarray
    a_exponent: numpy.ndarray
    a_integer: numpy.ndarray
    b_valid: numpy.ndarray
    b_exponent: numpy.ndarray
    b_integer: numpy.ndarray
    partial: numpy.ndarray
    acc: numpy.ndarray
    acc_overflow: numpy.ndarray
    cycles: int
    compute_cycles: int
    drain_cycles: int
    decodes: int
    decoder_idle: int
    macs: int
    idle: int
    overflows: int

class _OliveSystolicClockedRun(Protocol):
    def __call__(self, wide: ArrayLike, drain: ArrayLike, west: ArrayLike, west_valid: ArrayLike, north: ArrayLike, north_valid: ArrayLike, bias_a: ArrayLike, bias_b: ArrayLike, *, rows: int = ..., cols: int = ..., a: Literal['int4', 'flint4'] = ..., b: Literal['int4', 'flint4'] = ..., eight: Literal['int8', 'int8_repo'] = ..., overflow: Literal['wrap', 'saturate'] | Literal['refuse', 'wrap', 'saturate'] = ..., split: Literal['twos_complement', 'sign_magnitude'] = ...) -> _OliveSystolicClockedResult: ...

class _OliveSystolicClockedUnit(Unit[refemu.units.olive.olive_systolic_clocked.registers.State, _OliveSystolicClockedResult]):
    run: _OliveSystolicClockedRun
    unit_class: type[refemu.units.olive.olive_systolic_clocked.unit.OliveSystolicClocked]
    @cached_property
    def run_jit(self) -> _OliveSystolicClockedRun: ...

class _OrizuruRun(Protocol):
    def __call__(self, x: ArrayLike, *, n: int, k: int = ..., total_order: bool = ..., min_leaf: Literal['not_max', 'compare'] = ...) -> refemu.units.kllm.orizuru.unit.Result: ...

class _OrizuruUnit(Unit[refemu.units.kllm.orizuru.unit.State, refemu.units.kllm.orizuru.unit.Result]):
    run: _OrizuruRun
    unit_class: type[refemu.units.kllm.orizuru.unit.Orizuru]
    @cached_property
    def run_jit(self) -> _OrizuruRun: ...

class _OrizuruClockedRun(Protocol):
    def __call__(self, start: ArrayLike, x: ArrayLike, *, n: int, k: int = ..., total_order: bool = ..., min_leaf: Literal['not_max', 'compare'] = ...) -> refemu.units.kllm.orizuru_clocked.Result: ...

class _OrizuruClockedUnit(Unit[refemu.units.kllm.orizuru_clocked.State, refemu.units.kllm.orizuru_clocked.Result]):
    run: _OrizuruClockedRun
    unit_class: type[refemu.units.kllm.orizuru_clocked.ClockedOrizuru]
    @cached_property
    def run_jit(self) -> _OrizuruClockedRun: ...

class _OrizuruPassesState(DeclaredState):
    event: str
    index: int
    x: tuple[int, ...]
    max_index: tuple[int, ...]
    min_index: tuple[int, ...]
    outlier_mask: tuple[int, ...]
    root_max: int
    root_min: int
    root_max_valid: int
    root_min_valid: int
    passes_taken: int
    cycles_taken: int
    comparisons: int
    comparisons_live: int
    cycles: int
    passes: int

class _OrizuruPassesDevice(refemu.units.kllm.orizuru_passes.OrizuruPasses):
    def step(self, x: tuple[int, ...]) -> _OrizuruPassesState: ...
    def snapshot(self) -> _OrizuruPassesState: ...

class _OrizuruPassesRun(Protocol):
    def __call__(self, x: ArrayLike, *, n: int, k: int = ..., inputs: int = ..., total_order: bool = ..., min_leaf: Literal['not_max', 'compare'] = ...) -> refemu.units.kllm.orizuru_passes.Result: ...

class _OrizuruPassesUnit(Unit[DeclaredState, refemu.units.kllm.orizuru_passes.Result]):
    run: _OrizuruPassesRun
    unit_class: type[_OrizuruPassesDevice]
    @cached_property
    def run_jit(self) -> _OrizuruPassesRun: ...

class _OutlierDecoderResult(Result):
    exponent: numpy.ndarray
    base_int: numpy.ndarray
    decodes: int

class _OutlierDecoderState(DeclaredState):
    event: str
    index: int
    code: int
    bias: int
    exponent: int
    base_int: int
    decodes: int

class _OutlierDecoderDevice(refemu.units.olive.outlier_decoder.OutlierDecoder):
    def step(self, code: int, bias: int) -> _OutlierDecoderState: ...
    def snapshot(self) -> _OutlierDecoderState: ...

class _OutlierDecoderRun(Protocol):
    def __call__(self, code: ArrayLike, bias: ArrayLike, *, exp_bits: int = ..., man_bits: int = ..., exponent_bits: int | None = ...) -> _OutlierDecoderResult: ...

class _OutlierDecoderUnit(Unit[DeclaredState, _OutlierDecoderResult]):
    run: _OutlierDecoderRun
    unit_class: type[_OutlierDecoderDevice]
    @cached_property
    def run_jit(self) -> _OutlierDecoderRun: ...

class _OvpDecoderResult(Result):
    exponent: numpy.ndarray
    base_int: numpy.ndarray
    illegal: numpy.ndarray
    pairs: int
    outliers: int
    illegal_pairs: int

class _OvpDecoderState(DeclaredState):
    event: str
    index: int
    pair: int
    bias: int
    exponent: tuple[int, ...]
    base_int: tuple[int, ...]
    illegal: int
    pairs: int
    outliers: int
    illegal_pairs: int

class _OvpDecoderDevice(refemu.units.olive.ovp_decoder.OvpDecoder):
    def step(self, pair: int, bias: int) -> _OvpDecoderState: ...
    def snapshot(self) -> _OvpDecoderState: ...

class _OvpDecoderRun(Protocol):
    def __call__(self, pair: ArrayLike, bias: ArrayLike, *, normal: Literal['int4', 'flint4', 'int8'] = ..., outlier: tuple[int, int] = ...) -> _OvpDecoderResult: ...

class _OvpDecoderUnit(Unit[DeclaredState, _OvpDecoderResult]):
    run: _OvpDecoderRun
    unit_class: type[_OvpDecoderDevice]
    @cached_property
    def run_jit(self) -> _OvpDecoderRun: ...

class _OvpEncoderResult(Result):
    pair: numpy.ndarray
    kind: numpy.ndarray
    saturated: numpy.ndarray
    raised: numpy.ndarray
    pairs: int
    left_outliers: int
    right_outliers: int
    pruned_outliers: int
    victims: int
    saturated_pairs: int
    raised_pairs: int
    clamped_normals: int

class _OvpEncoderState(DeclaredState):
    event: str
    index: int
    value: tuple[int, ...]
    pair: int
    kind: int
    saturated: int
    raised: int
    pairs: int
    left_outliers: int
    right_outliers: int
    pruned_outliers: int
    victims: int
    saturated_pairs: int
    raised_pairs: int
    clamped_normals: int

class _OvpEncoderDevice(refemu.units.olive.ovp_encoder.OvpEncoder):
    def step(self, value: tuple[int, ...]) -> _OvpEncoderState: ...
    def snapshot(self) -> _OvpEncoderState: ...

class _OvpEncoderRun(Protocol):
    def __call__(self, value: ArrayLike, *, fmt: Literal['OVP_FLINT4', 'OVP_FLINT4_REPO', 'OVP_INT4', 'OVP_INT4_REPO', 'OVP_INT8', 'OVP_INT8_REPO'] | refemu.formats.olive.ovp.Ovp = ...) -> _OvpEncoderResult: ...

class _OvpEncoderUnit(Unit[DeclaredState, _OvpEncoderResult]):
    run: _OvpEncoderRun
    unit_class: type[_OvpEncoderDevice]
    @cached_property
    def run_jit(self) -> _OvpEncoderRun: ...

class _PageManagerResult(Result):
    counts: numpy.ndarray
    prefix: numpy.ndarray
    ids: numpy.ndarray
    lacking: numpy.ndarray
    list_start: numpy.ndarray
    list_end: numpy.ndarray
    free: numpy.ndarray
    ring: numpy.ndarray
    head: numpy.ndarray
    tail: numpy.ndarray
    used: numpy.ndarray
    tokens: numpy.ndarray
    cells: numpy.ndarray
    allocated: int
    recycled: int
    levels: int
    adds: int
    shortfall: int
    step_pages: int
    pruned: int

class _PageManagerRun(Protocol):
    def __call__(self, op: ArrayLike, members: ArrayLike, sequences: ArrayLike, prompts: ArrayLike, high: ArrayLike, low: ArrayLike, *, pages: int = ..., layers: int = ..., heads: int = ..., high_tokens: int = ..., low_tokens: int | None = ..., max_len: int = ..., slots: int = ..., reserve_low: int = ..., table_extra: int = ..., table_tokens: int | None = ..., lazy_pages: bool = ..., scrub: bool = ...) -> _PageManagerResult: ...

class _PageManagerUnit(Unit[refemu.units.leankv.page_manager.registers.State, _PageManagerResult]):
    run: _PageManagerRun
    unit_class: type[refemu.units.leankv.page_manager.unit.PageManager]
    @cached_property
    def run_jit(self) -> _PageManagerRun: ...

class _PageTableResult(Result):
    page: numpy.ndarray
    ids: numpy.ndarray
    count: numpy.ndarray
    high_pages: numpy.ndarray
    low_pages: numpy.ndarray
    used: numpy.ndarray
    tokens: numpy.ndarray
    cells: numpy.ndarray
    written: int
    given_back: int

class _PageTableRun(Protocol):
    def __call__(self, op: ArrayLike, entry: ArrayLike, section: ArrayLike, value: ArrayLike, other: ArrayLike, *, slots: int = ..., layers: int = ..., heads: int = ..., cells: int = ..., scrub: bool = ...) -> _PageTableResult: ...

class _PageTableUnit(Unit[refemu.units.leankv.page_table.State, _PageTableResult]):
    run: _PageTableRun
    unit_class: type[refemu.units.leankv.page_table.PageTable]
    @cached_property
    def run_jit(self) -> _PageTableRun: ...

class _PagedAttentionResult(Result):
    out: numpy.ndarray
    p: numpy.ndarray
    score: numpy.ndarray
    logits: numpy.ndarray | None
    tops: numpy.ndarray | None
    totals: numpy.ndarray | None
    acc: numpy.ndarray | None
    sums: numpy.ndarray | None
    pages: int
    key_words: int
    key_meta_words: int
    val_words: int
    val_meta_words: int
    score_words: int
    pos_words: int
    key_sectors: int
    key_meta_sectors: int
    val_sectors: int
    val_meta_sectors: int
    score_sectors: int
    pos_sectors: int
    macs: int
    exps: int
    divisions: int

class _PagedAttentionRun(Protocol):
    def __call__(self, q: ArrayLike, images: ArrayLike, entry: ArrayLike, n_high: ArrayLike, n_low: ArrayLike, newest: ArrayLike, *, head_size: int = ..., heads: int = ..., high: Literal['K8V8', 'K8V4', 'K8V2', 'K4V4', 'K4V2', 'K4V1', 'K4V8', 'K2V4', 'K16V16', 'K8V4_G12', 'K4V2_G24'] = ..., low: Literal['K8V8', 'K8V4', 'K8V2', 'K4V4', 'K4V2', 'K4V1', 'K4V8', 'K2V4', 'K16V16', 'K8V4_G12', 'K4V2_G24'] | None = ..., page_bytes: int | None = ..., cells: int = ..., preset: Literal['paper', 'diffkv'] = ..., order: Literal['kernel', 'sequential'] = ..., fma: bool = ..., softmax_div: Literal['div', 'recip_mul'] = ..., softmax_eps: float = ..., lane_max: bool = ..., partition_tokens: int = ..., partition_score: bool = ..., include_self: bool = ..., gqa: Literal['max', 'mean'] = ..., warps: int = ..., sum_threads: int = ..., key_threads: int = ..., value_rows: int = ..., value_slots: int = ..., join: Literal['tree', 'sequential'] = ..., stages: bool = ..., k_vec: int = ..., k_group: int = ..., v_vec: int = ..., v_group: int = ..., align: tuple[int, int] = ...) -> _PagedAttentionResult: ...

class _PagedAttentionUnit(Unit[refemu.units.leankv.paged_attention.ports.State, _PagedAttentionResult]):
    run: _PagedAttentionRun
    unit_class: type[refemu.units.leankv.paged_attention.unit.PagedAttention]
    @cached_property
    def run_jit(self) -> _PagedAttentionRun: ...

class _PeLaneResult(Result):
    ready: numpy.ndarray
    full: numpy.ndarray
    phase: numpy.ndarray
    address: numpy.ndarray
    y_valid: numpy.ndarray
    y: numpy.ndarray
    overflow: numpy.ndarray
    q: numpy.ndarray
    q_valid: numpy.ndarray
    amount: numpy.ndarray | None
    turns_held: numpy.ndarray
    left_turns: numpy.ndarray
    last_held: numpy.ndarray
    end_held: numpy.ndarray
    fresh: numpy.ndarray
    merging: numpy.ndarray
    merge_end: numpy.ndarray
    count: numpy.ndarray
    counted: numpy.ndarray
    columns: numpy.ndarray
    reducing: numpy.ndarray
    working: numpy.ndarray
    left: numpy.ndarray
    work_closes: numpy.ndarray
    work_shifts: numpy.ndarray
    work_biases: numpy.ndarray
    work_a_scale: numpy.ndarray
    work_shift: numpy.ndarray
    work_b_scale: numpy.ndarray
    work_row_sum: numpy.ndarray
    work_bias: numpy.ndarray
    acc: numpy.ndarray
    outside: numpy.ndarray
    joint: numpy.ndarray
    cycles: int
    count_cycles: int
    stalls: int
    merge_cycles: int
    mac_cycles: int
    tiles: int
    concats: int
    indices: int
    lookups: int
    macs_reduce: int
    macs_sparse: int
    dequants: int
    mults_scale: int
    adds_merge: int
    overflows: int

class _PeLaneRun(Protocol):
    def __call__(self, load: ArrayLike, last: ArrayLike, tile_end: ArrayLike, turns: ArrayLike, a: ArrayLike, b: ArrayLike, valid: ArrayLike, go: ArrayLike, outliers: ArrayLike, opens: ArrayLike, closes: ArrayLike, shifts: ArrayLike, biases: ArrayLike, a_scale: ArrayLike, shift: ArrayLike, b_scale: ArrayLike, row_sum: ArrayLike, bias: ArrayLike, entry: ArrayLike, sparse: ArrayLike, x: ArrayLike, w: ArrayLike, x_coded: ArrayLike, w_coded: ArrayLike, *, concat: int = ..., counters: int = ..., inputs: int = ..., macs: int = ..., a_bits: int = ..., b_bits: int = ..., integer: bool = ..., lane_mapping: Literal['column', 'counter'] = ..., merge: Literal['tree', 'serial'] = ..., counter_bits: int = ...) -> _PeLaneResult: ...

class _PeLaneUnit(Unit[refemu.units.kllm.pe_lane.registers.State, _PeLaneResult]):
    run: _PeLaneRun
    unit_class: type[refemu.units.kllm.pe_lane.unit.PeLane]
    @cached_property
    def run_jit(self) -> _PeLaneRun: ...

class _PrefixSumResult(Result):
    inclusive: numpy.ndarray
    level: numpy.ndarray
    levels: int
    adds: int

class _PrefixSumState(DeclaredState):
    event: str
    index: int
    counts: tuple[int, ...]
    base: int
    inclusive: tuple[int, ...]
    level: int
    levels: int
    adds: int

class _PrefixSumDevice(refemu.units.leankv.prefix_sum.PrefixSum):
    def step(self, counts: tuple[int, ...] | None = ..., base: int | None = ...) -> _PrefixSumState: ...
    def snapshot(self) -> _PrefixSumState: ...

class _PrefixSumRun(Protocol):
    def __call__(self, counts: ArrayLike, base: ArrayLike, *, elements: int = ...) -> _PrefixSumResult: ...

class _PrefixSumUnit(Unit[DeclaredState, _PrefixSumResult]):
    run: _PrefixSumRun
    unit_class: type[_PrefixSumDevice]
    @cached_property
    def run_jit(self) -> _PrefixSumRun: ...

class _PromptCompressorResult(Result):
    cls: numpy.ndarray
    order: numpy.ndarray
    n_pruned: numpy.ndarray
    n_low: numpy.ndarray
    n_high: numpy.ndarray
    keys: numpy.ndarray
    sorted: numpy.ndarray
    running: numpy.ndarray
    rank: numpy.ndarray
    size: numpy.ndarray | None
    distance: numpy.ndarray | None
    lower: numpy.ndarray | None
    comparisons: int
    exchanges: int
    classified: int

class _PromptCompressorState(DeclaredState):
    event: str
    index: int
    share: tuple[int, ...]
    window: int
    thresholds: tuple[int, ...]
    cls: tuple[int, ...]
    order: tuple[int, ...]
    n_pruned: int
    n_low: int
    n_high: int
    keys: tuple[int, ...]
    sorted: tuple[int, ...]
    running: int
    rank: int
    size: int
    distance: int
    lower: int
    comparisons: int
    exchanges: int
    classified: int

class _PromptCompressorDevice(refemu.units.leankv.prompt_compressor.PromptCompressor):
    def step(self, share: tuple[int, ...] | None = ..., window: int | None = ..., thresholds: tuple[int, ...] | None = ...) -> _PromptCompressorState: ...
    def snapshot(self) -> _PromptCompressorState: ...

class _PromptCompressorRun(Protocol):
    def __call__(self, share: ArrayLike, window: ArrayLike, thresholds: ArrayLike, *, tokens: int = ..., rule: Literal['cumulative', 'per_token', 'static'] = ..., order: Literal['stable', 'bitonic'] = ..., low_cumsum: Literal['total', 'restart'] = ..., keep_percent: int = ...) -> _PromptCompressorResult: ...

class _PromptCompressorUnit(Unit[DeclaredState, _PromptCompressorResult]):
    run: _PromptCompressorRun
    unit_class: type[_PromptCompressorDevice]
    @cached_property
    def run_jit(self) -> _PromptCompressorRun: ...

class _ScoreQuantizerRun(Protocol):
    def __call__(self, p: ArrayLike, v_scale: ArrayLike | None = ..., *, t: int, bits: int = ..., mode: Literal['fold', 'max', 'fixed'] = ..., preset: Literal['paper', 'exact'] | refemu.formats.kllm.kllm_arith.KllmArith = ...) -> refemu.units.kllm.score_quantizer.Result: ...

class _ScoreQuantizerUnit(Unit[refemu.units.kllm.score_quantizer.State, refemu.units.kllm.score_quantizer.Result]):
    run: _ScoreQuantizerRun
    unit_class: type[refemu.units.kllm.score_quantizer.ScoreQuantizer]
    @cached_property
    def run_jit(self) -> _ScoreQuantizerRun: ...

class _SignificanceRun(Protocol):
    def __call__(self, p: ArrayLike, *, tokens: int = ..., heads: int = ..., score_queries: int | None = ..., include_self: bool = ..., normalize: bool = ..., gqa: Literal['max', 'mean'] = ..., gqa_order: Literal['sums', 'queries'] = ...) -> refemu.units.leankv.significance.Result: ...

class _SignificanceUnit(Unit[refemu.units.leankv.significance.State, refemu.units.leankv.significance.Result]):
    run: _SignificanceRun
    unit_class: type[refemu.units.leankv.significance.Significance]
    @cached_property
    def run_jit(self) -> _SignificanceRun: ...

class _SubPeResult(Result):
    psum: numpy.ndarray
    psums: int
    macs4x8: int

class _SubPeState(DeclaredState):
    event: str
    index: int
    a_sign: tuple[int, ...]
    a_mag: tuple[int, ...]
    b_sign: tuple[int, ...]
    b_mag: tuple[int, ...]
    psum: int
    psums: int
    macs4x8: int

class _SubPeDevice(refemu.units.harmonia.sub_pe.SubPe):
    def step(self, a_sign: tuple[int, ...], a_mag: tuple[int, ...], b_sign: tuple[int, ...], b_mag: tuple[int, ...]) -> _SubPeState: ...
    def snapshot(self) -> _SubPeState: ...

class _SubPeRun(Protocol):
    def __call__(self, a_sign: ArrayLike, a_mag: ArrayLike, b_sign: ArrayLike, b_mag: ArrayLike) -> _SubPeResult: ...

class _SubPeUnit(Unit[DeclaredState, _SubPeResult]):
    run: _SubPeRun
    unit_class: type[_SubPeDevice]
    @cached_property
    def run_jit(self) -> _SubPeRun: ...

class _VGrouperResult(Result):
    commit: numpy.ndarray
    count: numpy.ndarray
    sign: numpy.ndarray
    mantissa: numpy.ndarray
    exponent: numpy.ndarray
    tokens: numpy.ndarray
    residual: numpy.ndarray | None
    conversions: int
    commits: int
    converted_elements: int
    residual_reads: int

class _VGrouperState(DeclaredState):
    event: str
    index: int
    v: tuple[int, ...]
    commit: int
    count: int
    sign: tuple[int, ...]
    mantissa: tuple[int, ...]
    exponent: tuple[int, ...]
    tokens: int
    residual: tuple[int, ...]
    committed: Any
    temporary: Any
    conversions: int
    commits: int
    converted_elements: int
    residual_reads: int

class _VGrouperDevice(refemu.units.harmonia.v_grouper.VGrouper):
    def step(self, v: tuple[int, ...]) -> _VGrouperState: ...
    def snapshot(self) -> _VGrouperState: ...

class _VGrouperRun(Protocol):
    def __call__(self, v: ArrayLike, *, channels: int = ..., high: int = ..., growth: Literal['reconvert', 'realign'] = ..., rounding: Literal['truncate', 'half_even', 'half_away', 'floor'] = ...) -> _VGrouperResult: ...

class _VGrouperUnit(Unit[DeclaredState, _VGrouperResult]):
    run: _VGrouperRun
    unit_class: type[_VGrouperDevice]
    @cached_property
    def run_jit(self) -> _VGrouperRun: ...

class _WeightedSumResult(Result):
    y: numpy.ndarray
    overflow: numpy.ndarray
    acc: numpy.ndarray
    done: numpy.ndarray
    lookups: int
    macs: int
    overflows: int

class _WeightedSumState(DeclaredState):
    event: str
    index: int
    count: tuple[int, ...]
    codebook: tuple[int, ...]
    y: int
    overflow: int
    acc: int
    done: int
    lookups: int
    macs: int
    overflows: int

class _WeightedSumDevice(refemu.units.kllm.weighted_sum.WeightedSum):
    def step(self, count: tuple[int, ...] | None = ..., codebook: tuple[int, ...] | None = ...) -> _WeightedSumState: ...
    def snapshot(self) -> _WeightedSumState: ...

class _WeightedSumRun(Protocol):
    def __call__(self, count: ArrayLike, codebook: ArrayLike, *, bits: int = ..., preset: Literal['paper', 'exact'] | refemu.formats.kllm.kllm_arith.KllmArith = ...) -> _WeightedSumResult: ...

class _WeightedSumUnit(Unit[DeclaredState, _WeightedSumResult]):
    run: _WeightedSumRun
    unit_class: type[_WeightedSumDevice]
    @cached_property
    def run_jit(self) -> _WeightedSumRun: ...

@overload
def find(name: Literal["bfp_accumulator"]) -> _BfpAccumulatorUnit: ...
@overload
def find(name: Literal["bfp_aligner"]) -> _BfpAlignerUnit: ...
@overload
def find(name: Literal["bfp_converter"]) -> _BfpConverterUnit: ...
@overload
def find(name: Literal["bfp_pe"]) -> _BfpPeUnit: ...
@overload
def find(name: Literal["bfp_pe_array"]) -> _BfpPeArrayUnit: ...
@overload
def find(name: Literal["bfp_pe_array_clocked"]) -> _BfpPeArrayClockedUnit: ...
@overload
def find(name: Literal["bit_allocator"]) -> _BitAllocatorUnit: ...
@overload
def find(name: Literal["clustering"]) -> _ClusteringUnit: ...
@overload
def find(name: Literal["concat"]) -> _ConcatUnit: ...
@overload
def find(name: Literal["fdgf"]) -> _FdgfUnit: ...
@overload
def find(name: Literal["flint_decoder"]) -> _FlintDecoderUnit: ...
@overload
def find(name: Literal["fp16_mac"]) -> _Fp16MacUnit: ...
@overload
def find(name: Literal["fp2half"]) -> _Fp2halfUnit: ...
@overload
def find(name: Literal["free_page_list"]) -> _FreePageListUnit: ...
@overload
def find(name: Literal["functional"]) -> _FunctionalUnit: ...
@overload
def find(name: Literal["generation_compressor"]) -> _GenerationCompressorUnit: ...
@overload
def find(name: Literal["harmonia_core"]) -> _HarmoniaCoreUnit: ...
@overload
def find(name: Literal["harmonia_core_clocked"]) -> _HarmoniaCoreClockedUnit: ...
@overload
def find(name: Literal["index_counter"]) -> _IndexCounterUnit: ...
@overload
def find(name: Literal["index_function"]) -> _IndexFunctionUnit: ...
@overload
def find(name: Literal["index_matmul"]) -> _IndexMatmulUnit: ...
@overload
def find(name: Literal["index_norm"]) -> _IndexNormUnit: ...
@overload
def find(name: Literal["index_product"]) -> _IndexProductUnit: ...
@overload
def find(name: Literal["k_offset"]) -> _KOffsetUnit: ...
@overload
def find(name: Literal["kllm_chip"]) -> _KllmChipUnit: ...
@overload
def find(name: Literal["kv_compressor"]) -> _KvCompressorUnit: ...
@overload
def find(name: Literal["kv_quantizer"]) -> _KvQuantizerUnit: ...
@overload
def find(name: Literal["layer_step"]) -> _LayerStepUnit: ...
@overload
def find(name: Literal["mmaovp"]) -> _MmaovpUnit: ...
@overload
def find(name: Literal["mmaovp_clocked"]) -> _MmaovpClockedUnit: ...
@overload
def find(name: Literal["olive_edp"]) -> _OliveEdpUnit: ...
@overload
def find(name: Literal["olive_edp_clocked"]) -> _OliveEdpClockedUnit: ...
@overload
def find(name: Literal["olive_mac"]) -> _OliveMacUnit: ...
@overload
def find(name: Literal["olive_pe8"]) -> _OlivePe8Unit: ...
@overload
def find(name: Literal["olive_requant"]) -> _OliveRequantUnit: ...
@overload
def find(name: Literal["olive_systolic"]) -> _OliveSystolicUnit: ...
@overload
def find(name: Literal["olive_systolic_clocked"]) -> _OliveSystolicClockedUnit: ...
@overload
def find(name: Literal["orizuru"]) -> _OrizuruUnit: ...
@overload
def find(name: Literal["orizuru_clocked"]) -> _OrizuruClockedUnit: ...
@overload
def find(name: Literal["orizuru_passes"]) -> _OrizuruPassesUnit: ...
@overload
def find(name: Literal["outlier_decoder"]) -> _OutlierDecoderUnit: ...
@overload
def find(name: Literal["ovp_decoder"]) -> _OvpDecoderUnit: ...
@overload
def find(name: Literal["ovp_encoder"]) -> _OvpEncoderUnit: ...
@overload
def find(name: Literal["page_manager"]) -> _PageManagerUnit: ...
@overload
def find(name: Literal["page_table"]) -> _PageTableUnit: ...
@overload
def find(name: Literal["paged_attention"]) -> _PagedAttentionUnit: ...
@overload
def find(name: Literal["pe_lane"]) -> _PeLaneUnit: ...
@overload
def find(name: Literal["prefix_sum"]) -> _PrefixSumUnit: ...
@overload
def find(name: Literal["prompt_compressor"]) -> _PromptCompressorUnit: ...
@overload
def find(name: Literal["score_quantizer"]) -> _ScoreQuantizerUnit: ...
@overload
def find(name: Literal["significance"]) -> _SignificanceUnit: ...
@overload
def find(name: Literal["sub_pe"]) -> _SubPeUnit: ...
@overload
def find(name: Literal["v_grouper"]) -> _VGrouperUnit: ...
@overload
def find(name: Literal["weighted_sum"]) -> _WeightedSumUnit: ...
@overload
def find(name: str | AnyUnit) -> AnyUnit: ...

PAPERS: dict[str, str]

def names() -> tuple[str, ...]: ...
def plugged() -> tuple[str, ...]: ...
def called() -> tuple[str, ...]: ...
def register(unit: AnyUnit) -> AnyUnit: ...
def unregister(name: str) -> None: ...
def register_faults(library: FaultLibrary) -> FaultLibrary: ...
def unregister_faults(unit: str) -> None: ...
def working() -> dict[str, AnyUnit]: ...
def broken() -> tuple[Broken, ...]: ...
def choose(spec: str | AnyUnit, config: str | None = None) -> tuple[AnyUnit, str]: ...
def configurations(spec: str | AnyUnit) -> tuple[AnyUnit, list[str]]: ...
def module(name: str | AnyUnit, compiled: bool = False) -> ModuleType: ...
