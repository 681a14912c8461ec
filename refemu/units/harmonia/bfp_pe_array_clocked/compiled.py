"""Compiled form of bfp_pe_array_clocked: every edge by one kernel. [harmonia §IV-A, §IV-B]

The kernel's registers hold edge numbers; lanes are looked up afterwards, 0 for registers that were never filled.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from refemu.arith import fp16_compiled
from refemu.units.derivation import Arrays, compiled_run
from refemu.units.harmonia.bfp_pe_array_clocked.bfp_pe_array_clocked import UNIT, BfpPeArrayClocked
from refemu.units.harmonia.kernels import bfp_array as of

NEXT, CURRENT = slice(of.C_NEXT_MODE, of.C_MODE), slice(of.C_MODE, of.C_NEXT_B)


@compiled_run(UNIT)
def run(array: BfpPeArrayClocked, inputs: Arrays, outputs: Arrays) -> Sequence[int]:
    """Every edge of every device."""
    names = [port.name for port in array.ports.inputs]
    shown = [port.name for port in array.ports.outputs + array.ports.state]
    totals = np.zeros(of.TOTALS, np.int64)
    for device in range(len(inputs[0])):
        ports = dict(zip(names, (each[device] for each in inputs), strict=True))
        values = _device(array, ports, totals)
        for name, output in zip(shown, outputs, strict=True):
            output[device] = values[name].reshape(output[device].shape)
    counts: list[int] = totals.tolist()
    return counts


def options(array: BfpPeArrayClocked) -> np.ndarray:
    """Parameters of an array for the kernel."""
    chosen = (array.activity == "parallel", array.overlap, array.partial == "fp16", array.product == "fp16")
    return np.array(chosen, np.int64)


def _device(array: BfpPeArrayClocked, ports: dict[str, np.ndarray], totals: np.ndarray) -> dict[str, np.ndarray]:
    """Outputs and registers of one device after every edge, by name."""
    edges, rows, columns = len(ports["mode"]), array.rows, array.columns
    x, x_exp = _before(_signed(ports), edges, rows), _before(ports["a_exp"], edges, rows)
    y, y_sign, y_exp = (_before(ports[name], edges, columns) for name in ("b", "b_sign", "b_exp"))
    factor = _before(fp16_compiled.to_f32(ports["w_scale"].view(np.float16)), edges, columns)
    entries = np.zeros((edges, of.E_FIELDS), np.int64)
    a_rows = _bits(ports["a_valid"], rows)
    fields = [ports[name] for name in ("mode", "clear", "last")]
    fields += [a_rows, _bits(ports["col_valid"], columns), ports.get("groups", np.ones(edges))]
    entries[:, of.E_AT] = np.where(a_rows > 0, np.arange(1, edges + 1), -1)
    for place, field in enumerate(fields, of.E_MODE):
        entries[:, place] = field
    control = np.empty((edges, columns, of.C_FIELDS), np.int64)
    pes, acc = np.empty((edges, rows, columns, of.P_FIELDS), np.int64), np.empty((edges, rows, columns), np.float32)
    leaves = np.empty(edges, np.int64)
    b_valid = ports["b_valid"].reshape(edges, columns).astype(np.int64)
    stays = ports.get("hold", np.zeros(edges)).astype(np.int64)
    with np.errstate(all="ignore"):
        feeds = entries, b_valid, stays, x, x_exp, y, y_sign, y_exp, factor
        of.run(options(array), *feeds, control, pes, acc, leaves, totals)
    values: dict[str, np.ndarray] = dict(_of_columns(control, ports)) | dict(_of_pes(pes, ports, rows))
    values |= {"sums": acc.view(np.uint32), "sum_flags": pes[..., of.P_FLAGS]}
    at = np.arange(edges), slice(None), np.maximum(leaves, 0)
    valid = (control[np.arange(edges), at[2], of.C_ROWS, None] >> np.arange(rows) & 1) * (leaves >= 0)[:, None]
    values |= {
        "valid": valid,
        "col": at[2],
        "acc": values["sums"][at] * valid,
        "flags": values["sum_flags"][at] * valid,
    }
    holds = np.asarray(control[..., [of.C_ARRIVED, of.C_WAITING, of.C_LEFT]].any(axis=(1, 2)))
    return values | {"busy": holds, "arrived": control[..., of.C_ARRIVED], "sub_pes": control[..., of.C_SUB_PES]}


def _signed(ports: dict[str, np.ndarray]) -> np.ndarray:
    """Activations with their signs."""
    magnitude = ports["a_mag"].astype(np.int16)
    return np.where(ports["a_sign"], -magnitude, magnitude)


def _before(values: np.ndarray, edges: int, lines: int) -> np.ndarray:
    """Values of a port by edge and line, from number 1 on; number 0 is the reset value."""
    held = np.zeros((edges + 1, lines, values.size // (edges * lines)), values.dtype)
    held[1:] = values.reshape(edges, lines, -1)
    return held


def _bits(values: np.ndarray, lanes: int) -> np.ndarray:
    """One-bit lanes as words."""
    return np.bitwise_or.reduce(np.left_shift(values.reshape(-1, lanes).astype(np.int64), np.arange(lanes)), axis=1)


def _of_columns(control: np.ndarray, ports: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Registers of the columns by name."""
    edges, columns = control.shape[:2]
    yield from zip(("waiting", "b_waiting", "left"), np.moveaxis(control[..., 1:4], -1, 0), strict=True)
    for which, fields, number in (("next", NEXT, of.C_NEXT_B), ("current", CURRENT, of.C_B)):
        for place, name in enumerate(("mode", "clear", "last", "rows", "columns", "groups")):
            yield f"{which}_{name}", control[..., fields.start + place]
        for name in ("b", "b_sign", "b_exp", "w_scale"):
            held = _before(ports[name], edges, columns)
            yield f"{which}_{name}", held[control[..., number], np.arange(columns)]


def _of_pes(pes: np.ndarray, ports: dict[str, np.ndarray], rows: int) -> Iterator[tuple[str, np.ndarray]]:
    """Registers of the PEs by name."""
    edges, lines = len(pes), np.arange(rows)[:, None]
    for which, number in (("next", of.P_NEXT), ("current", of.P_CURRENT)):
        for name in ("sign", "mag", "exp"):
            yield f"{which}_{name}", _before(ports[f"a_{name}"], edges, rows)[pes[..., number], lines]
    yield "latched", pes[..., of.P_LATCHED :]
    yield "pe_mode", pes[..., of.P_MODE]
    yield "slot", pes[..., of.P_SLOT]
