"""Readable forms in place of kernels that are not compiled yet."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from refemu.arith import dot_compiled, fp16_compiled, fp32_compiled, tables_compiled
from refemu.arith.jit import tiers
from refemu.arith.orders import Sequential
from refemu.formats import BFP8, GroupInt
from refemu.formats.compiled import groupint as groupint_compiled
from refemu.formats.harmonia.compiled import bfp as bfp_compiled
from refemu.formats.harmonia.compiled import bfp_dot as bfp_dot_compiled
from tests.arith.interpreted import needs_compiled

X = np.linspace(-3, 3, 4 * 64, dtype=np.float32).reshape(4, 64)
STRANGE = np.array([0x7FC00001, 0xFF800000, 0x80000000, 0x00000001, 0x477FF000, 0x33000000], np.uint32).view(np.float32)
HALVES = X.astype(np.float16)
FP16 = HALVES.astype(np.float32)
HEADS = FP16.reshape(4, 4, 16)
TURNS = np.cos(X[:, :8]), np.sin(X[:, :8])
INT4 = GroupInt(4, 32)
CALLS = {
    "all_fp16": lambda: np.array([fp16_compiled.holds_fp16(X), fp16_compiled.holds_fp16(FP16)]),
    "round16": lambda: fp16_compiled.round16(X),
    "round16 of NaN": lambda: fp16_compiled.round16(STRANGE),
    "to_f16 of NaN": lambda: fp16_compiled.to_f16(STRANGE),
    "to_f32 of NaN": lambda: fp16_compiled.to_f32(np.array([0x7E01, 0xFC00, 0x8000, 1], np.uint16).view(np.float16)),
    "values16 of NaN": lambda: tables_compiled.values16("silu", STRANGE),
    "rmsnorm16 of NaN": lambda: fp32_compiled.rmsnorm16(STRANGE[None], np.ones(6, np.float32), 1e-5),
    "matmul of NaN": lambda: dot_compiled.matmul(
        STRANGE[None], dot_compiled.panels(X[:, :6]), order=Sequential(), acc="fp32"
    ),
    "round16_of_f64": lambda: fp16_compiled.round16_of_f64(X.astype(np.float64) / 3),
    "to_f16": lambda: fp16_compiled.to_f16(X),
    "to_f32": lambda: fp16_compiled.to_f32(HALVES),
    "values16": lambda: tables_compiled.values16("silu", X),
    "softmax32": lambda: fp32_compiled.softmax32(X, Sequential()),
    "rmsnorm16": lambda: fp32_compiled.rmsnorm16(X, X[0], 1e-5),
    "rotate16": lambda: fp32_compiled.rotate16(HEADS, *TURNS, False),
    "matmul of rows": lambda: dot_compiled.matmul(FP16, dot_compiled.panels(HALVES), order=Sequential(), acc="fp32"),
    "matmul of a row": lambda: dot_compiled.matmul(X[:1], dot_compiled.panels(X), order=Sequential(), acc="fp32"),
    "matmul, fp16": lambda: dot_compiled.matmul(FP16, dot_compiled.panels(HALVES), order=Sequential(), acc="fp16"),
    "attention": lambda: dot_compiled.attention(HEADS, HEADS, HEADS, scale=np.float32(0.25), start=0),
    "grouped sums": lambda: bfp_dot_compiled.bfp_dot_int(
        BFP8.encode(HALVES), bfp_dot_compiled.prepare(INT4.encode(HALVES)), partial="fp16", product="fp32"
    ),
    "bfp encode": lambda: bfp_compiled.encode(BFP8, HALVES).mantissa,
    "groupint encode": lambda: groupint_compiled.encode(INT4, FP16).code,
}
COMMAND = """
import sys
from numba.core import event
class Listener(event.Listener):
    depth = 0
    def on_start(self, event):
        if not self.depth:
            print("compiles", event.data["dispatcher"].py_func.__qualname__, file=sys.stderr)
        self.depth += 1
    def on_end(self, event):
        self.depth -= 1
event.register("numba:compile", Listener())
from refemu.cli import console
console()
"""
PPL = ["ppl", "--model", "tiny", "--win", "32", "--windows", "1", "--json", "--scheme"]


@pytest.fixture
def deferred(monkeypatch):
    """A process with no kernel compiled."""
    monkeypatch.setattr(tiers, "LATER", True)
    monkeypatch.setattr(tiers, "is_deferred", lambda kernel: True)
    monkeypatch.setattr(tiers, "_spent", {})
    return tiers


def test_early_reads_until_its_time_is_spent(deferred, monkeypatch):
    clock = iter(np.arange(0, 10, 0.1))
    monkeypatch.setattr(deferred, "time", SimpleNamespace(thread_time=lambda: next(clock)))
    kernel = object()
    assert [deferred.early(kernel, 1, lambda: 7) for _ in range(5)] == [7, 7, 7, None, None]


def test_early_compiles_long_work_at_once(deferred):
    kernel = object()
    assert deferred.early(kernel, int(1 / deferred.RATE), lambda: 7) is None
    assert deferred.early(kernel, 1, lambda: 7) is None, "the kernel is compiled by now"


def test_early_is_off_in_the_library():
    assert not tiers.LATER and tiers.early(object(), 1, lambda: 7) is None


@pytest.mark.parametrize(("compiled", "cached", "expected"), [(0, 0, True), (0, 1, False), (1, 0, False)])
def test_kernels_at_hand_are_not_deferred(monkeypatch, tmp_path, compiled, cached, expected):
    monkeypatch.setattr(tiers, "LATER", True)
    (tmp_path / "here").touch()
    file = SimpleNamespace(_index_path=str(tmp_path / ("here" if cached else "absent")))
    cache = SimpleNamespace(cache_path=str(tmp_path), _cache_file=file)
    assert tiers.is_deferred(SimpleNamespace(overloads=[0] * compiled, _cache=cache)) is expected
    assert not tiers.is_deferred(len), "Python itself"


@pytest.mark.parametrize("name", CALLS)
def test_readable_form_has_the_bits_of_the_kernel(deferred, monkeypatch, name):
    early = CALLS[name]()
    assert any(deferred._spent.values()), "no readable form ran"
    monkeypatch.setattr(deferred, "LATER", False)
    compiled = CALLS[name]()
    assert early.dtype == compiled.dtype and early.tobytes() == compiled.tobytes()


@needs_compiled
@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "kernels"), [("fp16", set()), ("leankv", set()), ("harmonia-kv4", {"_choose", "_shift", "bfp_operand"})]
)
def test_first_command_compiles_few_kernels(tmp_path, scheme, kernels):
    def run(**variables):
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *PPL, scheme],
            env={name: value for name, value in os.environ.items() if name != "REFEMU_COMPILE"} | variables,
            capture_output=True,
            text=True,
            check=True,
        )

    first = run(REFEMU_CACHE=str(tmp_path))
    lines = map(str.split, first.stderr.splitlines())
    assert {words[1] for words in lines if words[0] == "compiles"} == kernels
    assert json.loads(first.stdout) == json.loads(run(REFEMU_COMPILE="always").stdout)
