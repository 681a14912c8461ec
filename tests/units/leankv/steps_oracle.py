"""What the oracle makes of the port values of layer_step, word by word."""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from refemu.units.leankv.layer_step import ADMIT, FINISH, LOAD, NONE, STEP
from tests.oracles import fp16
from tests.oracles.leankv import attention, formats, steps


def rules(device: Any) -> steps.Rules:
    """The oracle's rules for a device's parameters."""
    high, low = device.layouts.sections
    options = attention.PAPER._replace(k_group=device.k_group, v_vec=device.v_vec, v_group=device.v_group)
    if device.preset == "diffkv":
        options = options._replace(recip=True, eps=attention.EPSILON)
    threads = {name: getattr(device, name) for name in ("warps", "sum_threads", "key_threads", "value_rows")}
    options = options._replace(value_slots=device.value_slots, in_turn=device.join == "sequential", **threads)
    return steps.Rules(
        formats.CONFIGS[device.high],
        formats.CONFIGS[device.low] if device.low else None,
        (high.tokens, low.tokens),
        device.max_len,
        device.pages,
        device.policy,
        device.preset,
        options,
        device.reserve_low,
        device.table_extra,
        device.lazy_pages,
    )


def expected(device: Any, inputs: Mapping[str, np.ndarray]) -> list[dict[str, list[int]]]:
    """Words of every output port after every event of one device; inputs (events,) and lanes."""
    layer = steps.Layer(rules(device), device.kv_heads, device.requests)
    heads = range(device.kv_heads * device.requests)
    slots = {port.name: port.count // len(heads) for port in device.ports.outputs}
    rows = []
    for event in range(len(inputs["op"])):
        row = {name: np.asarray(array[event]).ravel().tolist() for name, array in inputs.items()}
        (op,) = row["op"]
        requests = [number for number, flag in enumerate(row.get("members", [1])) if flag]
        out: dict[str, list[list[int]]] = {name: [[] for _ in heads] for name in slots}
        if op == ADMIT:
            prompts = {number: row["prompt"][number] for number in requests}
            layer.admit(prompts, list(zip(row["keep_high"], row["keep_low"], strict=True)))
        elif op == FINISH:
            layer.finish(requests)
        elif op == LOAD:
            for head in heads:
                section = row["section"][head]
                if section != NONE:
                    key, value = (lanes(row[name], head, device.head_size) for name in ("key", "value"))
                    token = layer.load(head, section - 1, key, value, single(row["score"][head]), row["position"][head])
                    out["written"][head] = steps.record(token)
        else:
            assert op == STEP
            keys, values = ([lanes(row[name], h, device.head_size) for h in heads] for name in ("key", "value"))
            queries = [
                [lanes(row["q"], h * device.heads + g, device.head_size) for g in range(device.heads)] for h in heads
            ]
            limits = single(row["thresholds"][0]), single(row["thresholds"][1])
            stepped = layer.step(requests, keys, values, queries, row["window"][0], limits)
            for head, done in stepped.items():
                out["choice"][head], out["victim"][head] = [done.decision.case], [done.decision.victim]
                out["low_slot"][head], out["taken"][head] = [done.decision.low_slot], done.pages
                out["written"][head] = steps.record(done.written)
                out["moved"][head] = steps.record(done.moved) if done.moved else []
                out["out"][head] = [word for words in done.out for word in words]
                size = slots["p"] // device.heads
                out["p"][head] = [word for p in done.p for word in padded([pattern(x) for x in p], size)]
                out["scores"][head] = [pattern(x) for x in done.scores]
        rows.append(
            {
                name: [word for words in out[name] for word in padded(words, slots[name], -1 if name == "taken" else 0)]
                for name in slots
            }
        )
    return rows


def lanes(words: list[int], index: int, size: int) -> list[float]:
    """One vector of a port as numbers."""
    return [fp16.to_float(word) for word in words[index * size : (index + 1) * size]]


def padded(words: list[int], size: int, filler: int = 0) -> list[int]:
    """`size` words."""
    return [*words, *[filler] * (size - len(words))]


def single(word: int) -> float:
    """The float32 of a pattern."""
    (value,) = struct.unpack("<f", struct.pack("<I", word))
    return float(value)


def pattern(value: float) -> int:
    """The pattern of a float32."""
    (word,) = struct.unpack("<I", struct.pack("<f", value))
    return int(word)
