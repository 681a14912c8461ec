"""Tensors of PyTorch in `assert_bits_equal`, `hold`, `diff` and the formats; skipped where PyTorch is missing."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refemu import formats, golden, units
from refemu.arith import tensors
from refemu.arith.checks import RefusedType, as_array
from refemu.testing import assert_bits_equal, hold

torch = pytest.importorskip("torch", reason="needs PyTorch: make conformance-hf")

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]
WHOLE = [torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]


def width(dtype: Any) -> int:
    return torch.empty((), dtype=dtype).element_size()


def flipped(tensor: Any, at: int) -> Any:
    """A copy with the lowest bit of one element inverted."""
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    copy = tensor.clone()
    copy.view(words)[at] ^= 1
    return copy


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_one_ulp_is_detected_in_every_dtype(dtype: Any) -> None:
    expected = torch.linspace(-2, 2, 64).to(dtype)
    assert_bits_equal(expected.clone(), expected)
    assert_bits_equal(torch.full((3,), float("nan")).to(dtype), torch.full((3,), float("nan")).to(dtype))
    with pytest.raises(AssertionError, match=r"1 of 64 differ \(1.56 %\); by 1 ulp \(median\) to 1 ulp \(at \[5\]\)"):
        assert_bits_equal(flipped(expected, 5), expected)


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_integers_and_bools_compare_by_value(dtype: Any) -> None:
    expected = torch.arange(8).to(dtype)
    assert_bits_equal(expected, expected.numpy())
    with pytest.raises(AssertionError, match="1 of 8 differ"):
        assert_bits_equal(flipped(expected, 3) if dtype != torch.bool else expected ^ (torch.arange(8) == 3), expected)


@pytest.mark.parametrize("name", tensors.NARROW)
def test_values_of_all_codes_are_those_of_torch(name: str) -> None:
    words = torch.arange(1 << 8 * width(getattr(torch, name)))
    codes = words.to(torch.uint8) if len(words) == 256 else words.to(torch.int16)
    tensor = codes.view(getattr(torch, name))
    assert np.array_equal(as_array(tensor), tensor.to(torch.float32).numpy(), equal_nan=True)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            torch.zeros(4, 4)[:, ::2],
            r"must be contiguous, got strides of shape \(4, 2\); pass x.contiguous\(\)",
        ),
        (torch.zeros(()), "needs at least one axis, got 0 axes"),
        (
            torch.zeros(2, dtype=torch.complex64),
            "dense tensor of real numbers is needed, got torch.strided of",
        ),
        (torch.zeros(2, 2).to_sparse(), "dense tensor of real numbers is needed, got torch.sparse_coo"),
        (torch.zeros(2, device="meta"), "PyTorch cannot copy the tensor from meta"),
        (torch.zeros(2, dtype=torch.float8_e8m0fnu), "dtype float8_e8m0fnu is not understood; view it as unsigned"),
    ],
)
def test_unreadable_tensors_are_rejected_in_one_sentence(tensor: Any, message: str) -> None:
    with pytest.raises(RefusedType, match=message) as rejected:
        assert_bits_equal(tensor, np.zeros(2))
    assert "\n" not in str(rejected.value)


def test_dtypes_must_be_equal() -> None:
    with pytest.raises(AssertionError, match="dtype is bfloat16, want float16"):
        assert_bits_equal(torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.float16))


X = torch.linspace(-3, 3, 64).reshape(2, 32)


def test_formats_take_tensors() -> None:
    """float16 as NumPy's, bfloat16 exactly as float32, codes as integers."""
    half = X.half()
    assert_bits_equal(formats.BFP8.encode(half), formats.BFP8.encode(half.numpy()))
    brain = X.bfloat16()
    assert_bits_equal(formats.Affine(4).encode(brain), formats.Affine(4).encode(brain.float().numpy()))
    assert_bits_equal(formats.OVP_INT4.encode(brain * 4), formats.OVP_INT4.encode((brain * 4).float().numpy()))
    pairs = torch.tensor([0x85, 0xD5], dtype=torch.uint8)
    assert formats.OVP_INT4.tensor(pairs, (4,)).decode().tolist() == [48, 0, 5, -3]
    assert formats.find("INT4").decode(torch.tensor([7, 9])).tolist() == [7, -7]


def groups() -> tuple[dict[str, Any], Any]:
    stimulus = {"x": X.half().view(torch.int16), "bits": torch.tensor([4, 8], dtype=torch.uint8)}
    plain = {"x": X.half().numpy().view(np.uint16), "bits": np.uint8([4, 8])}
    unit = units.find("kv_quantizer")
    return stimulus, unit.evaluate(unit.configs["paper"], plain)


def test_hold_takes_tensors_words_and_bytes() -> None:
    stimulus, result = groups()
    scale = torch.from_numpy(result.scale.view(np.float16))
    words = torch.from_numpy(result.words.view(np.int16))
    hold("kv_quantizer", "paper", stimulus, scale=scale, words=words)
    hold("kv_quantizer", "paper", stimulus, words=words.view(torch.uint8), scale=scale.view(torch.int16))
    hold("kv_quantizer", "paper", stimulus, words=words.view(torch.int32))
    with pytest.raises(AssertionError, match=r"row 0, words\[3\].*; words: 1 of 32 differ .*; by 1 .* \(at \[0, 3\]\)"):
        hold("kv_quantizer", "paper", stimulus, words=flipped(words.reshape(-1), 3).reshape(2, 16).view(torch.int32))
    with pytest.raises(RefusedType, match=r"kv_quantizer.scale: port scale has 16 bits, encoding f16, got bfloat16"):
        hold("kv_quantizer", "paper", stimulus, scale=scale.bfloat16())


WIDE = "head_size=128,high=K8V4,low=none,page_bytes=6784,cells=1,output=fp32"  #: the paper's page, in float32


def page() -> tuple[Any, Any, dict[str, Any]]:
    """Words of a page, and keys and values by a dequantize kernel in torch."""
    layout = formats.UnifiedPage(128, formats.K8V4)
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 32, 128)).astype(np.float16)
    image = layout.pack(layout.record(layout.config.key().encode(x[0]), layout.config.value().encode(x[1])))
    words = torch.from_numpy(image.view(np.int16)).int() & 0xFFFF
    t, f = torch.arange(32)[:, None], torch.arange(128)[None]
    p, q = f // 2, f // 4
    k = words[((p // 4 % 4 * 32 + t) * 4 + p // 16) * 4 + p % 4] >> (f % 2 * 8) & 255
    v = words[2112 + ((q % 4 * 16 + t // 2) * 8 + q // 4) * 2 + t % 2] >> (f % 4 * 4) & 15
    meta = words.to(torch.int16).view(torch.float16).float()
    key = k * meta[2048:2112:2, None] - meta[2049:2112:2, None]
    value = v * meta[3136:3200:2, None] - meta[3137:3200:2, None]
    stimulus = {"images": words.to(torch.int16)[None], "entry": [[0]], "n_high": [32], "n_low": [0]}
    return key, value, stimulus


def test_page_kernel_in_torch_is_right_and_wrong() -> None:
    key, value, stimulus = page()
    hold("page_reader", WIDE, stimulus, key=key.reshape(1, -1), value=value.reshape(1, -1))
    half = {"key": key.half().reshape(1, -1), "value": value.half().reshape(1, -1)}
    hold("page_reader", "page", stimulus, **half)
    wrong = value.clone()
    wrong[:, ::4] = torch.nextafter(wrong[:, ::4], torch.zeros(()))
    with pytest.raises(AssertionError, match=r"value: 1,02\d of 4,096 differ .* each 1 ulp nearer to zero"):
        hold("page_reader", WIDE, stimulus, value=wrong.reshape(1, -1))


def test_diff_takes_tensors(tmp_path: Path) -> None:
    golden.generate(tmp_path, units=["ovp_decoder:int4"], kinds=["paper", "edge"])
    folder = tmp_path / "ovp_decoder-int4"
    right = torch.from_numpy(golden.load(folder).arrays["out.exponent"].copy())
    found = golden.diff(folder, {"exponent": right})
    assert (found.equal, found.not_compared) == (True, ("out.base_int", "out.illegal"))
    assert golden.diff(folder, {"exponent": right ^ 1}).distances["out.exponent"].largest == 1


TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorials" / "kernel.md").read_text("utf-8")


@pytest.mark.long
def test_tutorial_operator_passes(tmp_path: Path) -> None:
    """The files of the tutorial as a reader saves them, with its three corrections."""
    for language, name, text in re.findall(r"^```(python) (\S+)\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL):
        assert language == "python"
        (tmp_path / name).write_text(text)
    fixes = re.findall(r"^sed -i.before .* kernel.py$", TUTORIAL, re.MULTILINE)
    subprocess.run("\n".join(fixes), shell=True, cwd=tmp_path, check=True)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_torch_kernel.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert len(fixes) == 3
    assert "2 passed" in done.stdout, done.stdout + done.stderr
