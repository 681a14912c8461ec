"""Ready formats by the names of their constants.

Paper: [olive §3], [harmonia §III-B], [leankv §4]. A name listed in a Literal below has its type known to `find`.
"""

from typing import Literal, TypeAlias, overload

from refemu import plugins
from refemu.formats.code_format import CodeFormat, validated
from refemu.formats.element import Element
from refemu.formats.groupint import INT4_G128, GroupInt
from refemu.formats.harmonia.bfp import BFP4, BFP8, Bfp
from refemu.formats.integer import INT4, INT8, IntFormat
from refemu.formats.leankv.hetero_kv import PAIRS, HeteroKV, PairName
from refemu.formats.olive.abfloat import (
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
from refemu.formats.olive.flint import FLINT4, Flint
from refemu.formats.olive.ovp import OVP_FLINT4, OVP_FLINT4_REPO, OVP_INT4, OVP_INT4_REPO, OVP_INT8, OVP_INT8_REPO, Ovp

Block: TypeAlias = Bfp | GroupInt | HeteroKV  #: formats with ready constants but no table of codes
AbFloatName: TypeAlias = Literal[
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
]
FlintName: TypeAlias = Literal["FLINT4"]
IntName: TypeAlias = Literal["INT4", "INT8"]
OvpName: TypeAlias = Literal["OVP_FLINT4", "OVP_FLINT4_REPO", "OVP_INT4", "OVP_INT4_REPO", "OVP_INT8", "OVP_INT8_REPO"]
BfpName: TypeAlias = Literal["BFP4", "BFP8"]
GroupIntName: TypeAlias = Literal["INT4_G128"]

#: formats with a table of codes: element formats first, then pairs
CONSTANTS: dict[str, Element | Ovp] = {
    "E0M3_BIAS0": E0M3_BIAS0,
    "E0M3_BIAS1": E0M3_BIAS1,
    "E1M2_BIAS1": E1M2_BIAS1,
    "E1M2_BIAS2": E1M2_BIAS2,
    "E2M1_BIAS0": E2M1_BIAS0,
    "E2M1_BIAS2": E2M1_BIAS2,
    "E2M1_BIAS3": E2M1_BIAS3,
    "E2M5_BIAS2": E2M5_BIAS2,
    "E3M0_BIAS2": E3M0_BIAS2,
    "E3M0_BIAS4": E3M0_BIAS4,
    "E4M3_BIAS4": E4M3_BIAS4,
    "FLINT4": FLINT4,
    "INT4": INT4,
    "INT8": INT8,
    "OVP_FLINT4": OVP_FLINT4,
    "OVP_FLINT4_REPO": OVP_FLINT4_REPO,
    "OVP_INT4": OVP_INT4,
    "OVP_INT4_REPO": OVP_INT4_REPO,
    "OVP_INT8": OVP_INT8,
    "OVP_INT8_REPO": OVP_INT8_REPO,
}
#: formats of stored fields without a table of codes
BLOCKS: dict[str, Block] = {"BFP4": BFP4, "BFP8": BFP8, "INT4_G128": INT4_G128, **dict(sorted(PAIRS.items()))}

#: formats of plug-ins, and those registered by call
REGISTRY = plugins.Registry("format", lambda: {**CONSTANTS, **BLOCKS}, validated)


def constants() -> dict[str, Element | Ovp]:
    """List every ready format with a table of codes.

    Returns
    -------
    dict of Element or Ovp
        By the name of the constant, element formats first.
    """
    return dict(CONSTANTS)


def blocks() -> dict[str, Block]:
    """List every ready block format without a table of codes.

    Returns
    -------
    dict of Bfp, GroupInt or HeteroKV
        By the name of the constant.
    """
    return dict(BLOCKS)


@overload
def find(name: AbFloatName) -> AbFloat: ...
@overload
def find(name: FlintName) -> Flint: ...
@overload
def find(name: IntName) -> IntFormat: ...
@overload
def find(name: OvpName) -> Ovp: ...
@overload
def find(name: BfpName) -> Bfp: ...
@overload
def find(name: GroupIntName) -> GroupInt: ...
@overload
def find(name: PairName) -> HeteroKV: ...
@overload
def find(name: str) -> Element | Ovp | Block | CodeFormat: ...
def find(name: str) -> Element | Ovp | Block | CodeFormat:
    """Find a ready format.

    Parameters
    ----------
    name : str
        Name of the constant, in any case, "-" for "_"; of a plug-in's format also `distribution/NAME`.

    Returns
    -------
    Element, Ovp, Bfp, GroupInt, HeteroKV or CodeFormat
        The format.

    Raises
    ------
    Refused
        An unknown name, with the nearest; a plug-in that does not load.
    """
    distribution, slash, bare = name.rpartition("/")
    constant = f"{distribution}{slash}{bare.upper().replace('-', '_')}"
    ready: dict[str, Element | Ovp | Block] = {**CONSTANTS, **BLOCKS}
    return ready[constant] if constant in ready else REGISTRY.find(constant if REGISTRY.knows(constant) else name)


def register(name: str, fmt: CodeFormat) -> CodeFormat:
    """Register a format in this process: `find` and `refemu show` then know its name.

    Parameters
    ----------
    name : str
        Upper case word.
    fmt : CodeFormat
        Format.

    Returns
    -------
    CodeFormat
        The same.

    Raises
    ------
    Refused
        A name of refemu's own, or codes that do not fit the width.
    RefusedType
        It lacks one of width, codes, encode, decode and describe.
    """
    return REGISTRY.register(fmt, name)


def unregister(name: str) -> None:
    """Take back `register`.

    Parameters
    ----------
    name : str
        Name of a format; nothing happens where none of that name was registered by call.
    """
    REGISTRY.forget(name)


def plugged() -> tuple[str, ...]:
    """List every format that is not refemu's own: of installed distributions, then those registered by call.

    Returns
    -------
    tuple of str
        Names; where one is not unique, `distribution/FORMAT`.
    """
    return REGISTRY.names()
