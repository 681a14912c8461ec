"""The self-test passes here, and fails in every environment and with every rounding kernel that is not IEEE's."""

import ctypes
import ctypes.util
import platform
from contextlib import contextmanager

import numpy as np
import pytest

from refemu.arith import casts, fp16, selftest
from tests.oracles import fp16 as oracle

X86 = platform.machine() in ("x86_64", "AMD64") and platform.libc_ver()[0] == "glibc"
needs_control_word = pytest.mark.skipif(not X86, reason="sets the control register of x86 through glibc")


@contextmanager
def control_bits(bits):
    """The process with `bits` set in MXCSR, the last word of glibc's fenv_t."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    saved, changed = ctypes.create_string_buffer(32), (ctypes.c_uint32 * 8)()
    library.fegetenv(saved)
    ctypes.memmove(changed, saved, 32)
    changed[7] |= bits
    library.fesetenv(changed)
    try:
        yield
    finally:
        library.fesetenv(saved)


def test_this_process_rounds_to_nearest():
    selftest.check()
    selftest.require_round_to_nearest()


@needs_control_word
@pytest.mark.parametrize(
    ("bits", "message"),
    [
        pytest.param(0x6000, r"1 \+ 3\*2\*\*-24 gave 1\.0000001", id="toward zero"),
        pytest.param(0x4000, r"1 \+ 2\*\*-24 gave 1\.0000001", id="up"),
        pytest.param(0x2000, r"1 \+ 3\*2\*\*-24 gave", id="down"),
        pytest.param(0x8000, r"flushes subnormals \(2\*\*-126/2 gave 0\)", id="flush to zero"),
    ],
)
def test_selftest_rejects_other_float_environment(bits, message):
    with control_bits(bits), pytest.raises(ArithmeticError, match=f"^refemu: float32 arithmetic .*{message}") as caught:
        selftest.check()

    assert "another library changed the floating-point control register; set it back" in str(caught.value)
    selftest.check()


@needs_control_word
def test_first_float_work_runs_selftest(monkeypatch):
    monkeypatch.setattr(selftest, "_passed", False)
    with control_bits(0x6000), pytest.raises(ArithmeticError, match="does not round to nearest"):
        fp16.add16(np.float16(1), np.float16(1))

    fp16.add16(np.float16(1), np.float16(1))
    assert selftest._passed


def test_the_check_runs_once_a_process(monkeypatch):
    calls = []
    monkeypatch.setattr(selftest, "check", lambda: calls.append(1))
    monkeypatch.setattr(selftest, "_passed", False)
    selftest.require_round_to_nearest()
    selftest.require_round_to_nearest()

    assert calls == [1]


def test_wrong_cast_is_rejected(monkeypatch):
    cast = casts.narrow
    monkeypatch.setattr(casts, "narrow", lambda x: cast(np.nextafter(x, x.dtype.type(0))))
    with pytest.raises(ArithmeticError, match="casts to float16 do not round to nearest"):
        selftest.check()


def test_the_hard_cases_agree_with_the_oracle():
    inputs, want = selftest.hard_cases()

    assert (64, np.float32, np.uint16) == (inputs.size, inputs.dtype, want.dtype)
    assert [oracle.from_float(x) for x in inputs.tolist()] == want.tolist()
    assert len(set(inputs.tolist())) == 64


def kernel(lowest=0x38800000, overflow=0x477FF000, tie=0):
    """Rounding by adding a large number, with the constants that a mutant gets wrong."""

    def round16(x):
        u = x.view(np.uint32)
        m = u & np.uint32(0x7FFFFFFF)
        big = (np.maximum(m & np.uint32(0x7F800000), np.uint32(lowest)) + np.uint32(0x06C00000)).view(np.float32)
        r = (((m + np.uint32(tie)).view(np.float32) + big) - big).view(np.uint32)
        over = (m >= np.uint32(overflow)) & (m <= np.uint32(0x7F800000))
        return (np.where(over, np.uint32(0x7F800000), r) | (u & np.uint32(0x80000000))).view(np.float32)

    return round16


def drops_the_sign(x):
    return np.abs(fp16.round16(x))


def truncates(x):
    return fp16.round16(x, fp16.Fp16Mode(rounding="truncate"))


def flushes(x):
    return fp16.round16(x, fp16.Fp16Mode(subnormals="flush"))


@pytest.mark.parametrize("round16", [fp16.round16, kernel()], ids=["definition", "kernel form"])
def test_a_right_kernel_passes(round16):
    selftest.check_kernel(round16, "round16")


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(kernel(tie=1), id="tie bit"),
        pytest.param(kernel(overflow=0x477FE000), id="overflow from 65504"),
        pytest.param(kernel(overflow=0x477FF001), id="overflow above 65520"),
        pytest.param(kernel(lowest=0x39000000), id="subnormals from 2**-13"),
        pytest.param(kernel(lowest=0x38000000), id="subnormals from 2**-15"),
        pytest.param(drops_the_sign, id="sign"),
        pytest.param(truncates, id="truncate"),
        pytest.param(flushes, id="flush"),
        pytest.param(np.copy, id="no rounding"),
    ],
)
def test_a_mutant_dies(mutant):
    with pytest.raises(ArithmeticError, match=r"^refemu: mutant does not round to nearest \(.* gave .*, not "):
        selftest.check_kernel(mutant, "mutant")
