"""Given codes and scales are taken unchanged, or rejected with their index."""

from typing import Any

import numpy as np
import pytest

from refemu.arith.checks import Refused, RefusedType
from refemu.formats import INT4_G128, GroupInt, GroupIntTensor
from tests.oracles import bits

FMT = GroupInt(4, 2)


def tensor(
    fmt: GroupInt = FMT, code: Any = ((-8, 7, 1),), scale: Any = ((0.5, 2),), zero: Any = None
) -> GroupIntTensor:
    return fmt.tensor(np.array(code), np.array(scale, np.float16), None if zero is None else np.array(zero))


def test_minus_eight_is_legal_in_given_codes() -> None:
    """[harmonia §IV-B] D-harmonia-14: codes of another quantizer are accepted."""
    assert tensor().dequantize().tolist() == [[-4, 3.5, 2]] and tensor().grid().tolist() == [[-8, 7, 1]]


def test_zero_points_are_subtracted() -> None:
    fmt = GroupInt(4, 2, zero_point=True)

    assert tensor(fmt, [[15, 0, 3]], zero=[[8, 1]]).dequantize().tolist() == [[3.5, -4, 4]]
    assert set(tensor(fmt, [[15, 0, 3]], zero=[[8, 1]]).fields()) == {"code", "scale", "zero"}


def test_codes_are_packed_as_twos_complement() -> None:
    given = tensor()

    assert given.pack() == bits.pack([0b1000, 7, 1], 4)
    assert np.asarray(given.fields()["code"]).tolist() == [[8, 7, 1]]
    assert np.asarray(given.fields()["scale"]).tolist() == [[0x3800, 0x4000]]


def test_equality_looks_at_format_codes_and_scales() -> None:
    assert tensor().equals(tensor()) and not tensor().equals(tensor(GroupInt(5, 2))) and not tensor().equals(FMT)
    assert not tensor().equals(tensor(code=[[-8, 7, 2]])) and not tensor().equals(tensor(scale=[[0.5, 1]]))
    fmt = GroupInt(4, 2, zero_point=True)
    assert not tensor(fmt, [[1, 1, 1]], zero=[[0, 0]]).equals(tensor(fmt, [[1, 1, 1]], zero=[[0, 1]]))


def test_arrays_are_frozen() -> None:
    with pytest.raises(ValueError, match="read-only"):
        tensor().scale[0, 0] = 1


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        pytest.param(
            lambda: tensor(code=[[0, 8, 0]]), Refused, r"code 8 at index \(0, 1\) is outside \[-8, 7\]", id="8"
        ),
        pytest.param(lambda: tensor(code=[[0, -9, 0]]), Refused, r"code -9 at index \(0, 1\)", id="-9"),
        pytest.param(
            lambda: tensor(scale=[[1, -1]]),
            Refused,
            r"scale -1.0 of row \(0,\), group 1 must be finite and at least 0",
            id="negative",
        ),
        pytest.param(lambda: tensor(scale=[[np.inf, 1]]), Refused, "scale inf of row", id="infinite"),
        pytest.param(lambda: tensor(scale=[[np.nan, 1]]), Refused, "scale nan of row", id="nan"),
        pytest.param(
            lambda: tensor(scale=[[1, 0]]),
            Refused,
            r"scale 0.0 of row \(0,\), group 1 stands for codes that are "
            "not 0",
            id="zero scale",
        ),
        pytest.param(lambda: tensor(scale=[[1]]), Refused, r"needs scale \(1, 2\), got \(1, 1\)", id="shape"),
        pytest.param(
            lambda: FMT.tensor(np.zeros((1, 2), int), np.ones((1, 1), np.float32)),
            RefusedType,
            "scale must be float16, got dtype float32",
            id="dtype",
        ),
        pytest.param(lambda: tensor(zero=[[1, 1]]), Refused, "has no zero", id="no zero"),
        pytest.param(lambda: tensor(GroupInt(4, 2, True), code=[[1, 1, 1]]), Refused, "needs zero", id="zero missing"),
        pytest.param(
            lambda: tensor(GroupInt(4, 2, True), code=[[1, 1, 1]], zero=[[16, 0]]),
            Refused,
            r"zero 16 at index \(0, 0\) is outside \[0, 15\]",
            id="zero point",
        ),
        pytest.param(
            lambda: GroupInt(4, 48).encode(np.ones((1, 96), np.float32)).scales_of(32),
            Refused,
            "groups of 32 inputs cross weight groups of 48",
            id="cross",
        ),
    ],
)
def test_groupint_tensor_rejects_invalid_inputs(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


def test_repr_names_format_and_shapes() -> None:
    text = repr(INT4_G128.encode(np.ones((2, 130), np.float32)))

    assert text == "GroupIntTensor(int4_g128, shape=(2, 130), scale=(2, 2))"
