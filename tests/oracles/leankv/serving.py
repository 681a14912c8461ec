"""A serving simulation in plain Python: pages and tokens, an order of requests, times. Imports no refemu.

Pages are counted by head; with a manager of `memory`, every page has its id too.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, count

from tests.oracles.leankv import memory

MASK = (1 << 64) - 1


def stream(label: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{label}/{seed}".encode()).digest()[:8], "little")


def word(seed: int, index: int) -> int:
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def drawn(requests: int, rate: float, seed: int, prompt: int, generate: int) -> list[tuple[float, int, int]]:
    """Arrivals, prompts and tokens to generate, by von Neumann's falling runs of uniform words."""
    gaps, lengths = (exponential(stream(f"serving/{label}", seed)) for label in ("gap", "prompt"))
    times = accumulate(next(gaps) / rate for _ in range(requests))
    return [(time, 1 + int(next(lengths) * (prompt - 1)), generate) for time in times]


def exponential(seed: int) -> Iterator[float]:
    words, whole = (word(seed, index) >> 11 for index in count()), 0
    while True:
        run = [next(words)]
        while (following := next(words)) < run[-1]:
            run.append(following)
        if len(run) % 2 == 0:
            whole += 1
        else:
            yield whole + run[0] / (1 << 53)
            whole = 0


@dataclass
class Setting:
    """Sizes of a model, pages of one worker, and rates."""

    blocks: int
    width: int
    ffn: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    pages: int
    held: tuple[int, int]  #: tokens of a high and of a low page
    token: tuple[int, int]  #: bytes of a token
    page: int  #: bytes of a page
    window: int
    shares: tuple[float, float]  #: high and pruned
    slots: int
    preemption: str
    seed: int
    bandwidth: float
    rate: float
    link: float


@dataclass
class Head:
    """Tokens and pages of a head of a request."""

    tokens: list[int]
    pages: list[int]


@dataclass
class Result:
    seconds: float = 0.0
    tokens: int = 0
    batches: list[int] = field(default_factory=list)
    prompts: int = 0
    finished: list[int] = field(default_factory=list)
    yielded: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    bytes_read: int = 0
    weights: int = 0
    swapped: int = 0
    stalls: int = 0
    operations: float = 0.0
    generating: float = 0.0  #: seconds of generation steps
    bound: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("memory", "compute", "link"), 0.0))
    peak: list[int] = field(default_factory=lambda: [0, 0, 0])  #: most pages: high, low, both
    first: dict[int, float] = field(default_factory=dict)  #: seconds from arrival to the first token
    fragmentation: list[float] = field(default_factory=list)


class Simulation:
    def __init__(self, setting: Setting, requests: list[tuple[float, int, int]], max_len: int = 0) -> None:
        """max_len: most tokens of a request, if pages have ids; then `places` has them after every step."""
        self.s, self.requests = setting, requests
        self.manager: memory.Manager | None = None
        if max_len:
            sizes = setting.pages, setting.blocks, setting.kv_heads, *setting.held, max_len
            self.manager = memory.Manager(*sizes, slots=min(setting.slots, len(requests)))
        self.places: list[tuple[list[int], dict[int, list[tuple[list[int], list[int]]]]]] = []
        self.done = [0] * len(requests)
        self.live: dict[int, list[Head]] = {}
        self.swapped: set[int] = set()
        self.result = Result()

    def run(self) -> Result:
        s, out = self.s, self.result
        waiting: list[int] = []
        running: list[int] = []
        blocked: set[int] = set()
        coming = list(range(len(self.requests)))
        while coming or waiting or running:
            if not waiting and not running:
                out.seconds = max(out.seconds, self.requests[coming[0]][0])
            while coming and self.requests[coming[0]][0] <= out.seconds:
                r = coming.pop(0)
                fits = self.need(self.requests[r][1]) <= self.s.pages
                (waiting if fits else out.rejected).append(r)
            if not waiting and not running:
                continue
            ended = [r for r in running if self.done[r] >= self.requests[r][2]]
            if self.manager and ended:
                self.manager.finish(ended)
            for r in ended:
                del self.live[r]
                running.remove(r)
                out.finished.append(r)
                blocked.clear()
            start, free = [], self.free()
            for r in waiting:
                free -= self.need(self.length(r))
                if r in blocked or free < 0 or len(running) + len(start) == s.slots:
                    break
                start.append(r)
            if start:
                self.start(start)
                waiting = [r for r in waiting if r not in start]
                running += start
            else:
                self.generate(running, waiting, blocked, bool(ended))
            self.note()
            held = [head for heads in self.live.values() for head in heads]
            high, low = (sum(head.pages[kind] for head in held) for kind in range(2))
            out.peak = [max(pair) for pair in zip(out.peak, (high, low, high + low), strict=True)]
            pages = (high + low) * s.page
            used = sum(head.tokens[0] * s.token[0] + head.tokens[1] * s.token[1] for head in held)
            out.stalls += bool(waiting) and len(running) < s.slots
            for r in start:
                out.first.setdefault(r, out.seconds - self.requests[r][0])
            if running:
                out.fragmentation.append(1 - used / pages)
        return out

    def generate(self, running: list[int], waiting: list[int], blocked: set[int], ended: bool) -> None:
        out, swapped, alone = self.result, 0, False
        while running:
            plan = {r: [self.grows(r, h) for h in range(len(self.live[r]))] for r in running}
            need = sum(self.lacks(self.live[r][h], kind) for r in running for h, kind in enumerate(plan[r]))
            if need <= self.free():
                if self.manager:
                    grown = {"high": (1, 0), "low": (0, 1), "pruned": (0, 0)}
                    heads = self.manager.all_heads(running)
                    kinds = [kind for r in running for kind in plan[r]]
                    self.manager.step_allocate({head: grown[kind] for head, kind in zip(heads, kinds, strict=True)})
                for r in running:
                    self.grow(r, plan[r])
                    self.done[r] += 1
                out.tokens += len(running)
                out.batches.append(len(running))
                read = sum(self.bytes(r) for r in running)
                stored = sum(sum(head.tokens) for r in running for head in self.live[r])
                out.bytes_read += read
                pairs = stored / (self.s.blocks * self.s.kv_heads)
                seconds = self.time(len(running), len(running), pairs, read, swapped)
                out.seconds, out.generating = out.seconds + seconds, out.generating + seconds
                return
            if len(running) == 1:
                r = running.pop()
                self.drop(r)
                out.aborted.append(r)
                blocked.clear()
                alone = True
                break
            r = running.pop()
            if self.s.preemption == "swap":
                self.swapped.add(r)
                swapped += sum(sum(head.pages) for head in self.live[r]) * self.s.page
            self.drop(r)
            out.yielded.append(r)
            waiting.insert(0, r)
            blocked.add(r)
        if waiting and not running and not alone and not ended:
            out.aborted.append(waiting.pop(0))
        out.seconds += swapped / self.s.link
        out.swapped += swapped

    def start(self, names: list[int]) -> None:
        out, tokens, rows, pairs, moved, swapped = self.result, 0, 0, 0, 0, 0
        if self.manager:
            self.manager.prompt_allocate({r: self.length(r) for r in names})
            kept = [
                self.compressed(r, h, self.length(r)) for r in names for h in range(self.s.blocks * self.s.kv_heads)
            ]
            heads = self.manager.all_heads(names)
            self.manager.prompt_release({head: (*each.tokens,) for head, each in zip(heads, kept, strict=True)})
        for r in names:
            n = self.length(r)
            self.live[r] = [self.compressed(r, h, n) for h in range(self.s.blocks * self.s.kv_heads)]
            moved += self.bytes(r)
            if r in self.swapped:
                self.swapped.discard(r)
                swapped += sum(sum(head.pages) for head in self.live[r]) * self.s.page
            else:
                tokens, rows, pairs = tokens + n, rows + 1, pairs + n * (n + 1) // 2
                self.done[r] += 1
        out.tokens += rows
        out.prompts += 1
        out.bytes_read += moved if tokens else 0
        out.seconds += self.time(tokens, rows, pairs, moved if tokens else 0, swapped)

    def drop(self, r: int) -> None:
        """Free the pages of a request that has not ended."""
        del self.live[r]
        if self.manager:
            self.manager.finish([r])

    def note(self) -> None:
        """Append the free pages, in order, and the pages of every head of every request."""
        if self.manager:
            held: dict[int, list[tuple[list[int], list[int]]]] = {r: [] for r in self.live}
            for head in self.manager.all_heads(list(self.live)):
                runs = self.manager.pages[head]
                held[head[0]].append((list(runs.high), list(runs.low)))
            self.places.append((list(self.manager.list.free), held))

    def length(self, r: int) -> int:
        return self.requests[r][1] + self.done[r] - (r in self.swapped)

    def need(self, tokens: int) -> int:
        return self.s.blocks * self.s.kv_heads * (-(-tokens // self.s.held[0]) + 1)

    def free(self) -> int:
        return self.s.pages - sum(sum(head.pages) for heads in self.live.values() for head in heads)

    def kind(self, r: int, h: int, token: int) -> str:
        high, pruned = self.s.shares
        way = 0.5 * ((word(stream("serving/heads", self.s.seed), h) >> 32) / (1 << 31) - 1)
        more = min(high * (1 + way), 1.0)
        less = min(pruned * (1 - way), 1 - more)
        seed = word(stream(f"serving/tokens/0/{r}", self.s.seed), h)
        drawn = word(seed, token) >> 32
        if drawn < int(less * (1 << 32)):
            return "pruned"
        return "low" if drawn < int((1 - more) * (1 << 32)) else "high"

    def compressed(self, r: int, h: int, n: int) -> Head:
        kinds = [self.kind(r, h, t) for t in range(max(n - self.s.window, 0))]
        tokens = [min(n, self.s.window) + kinds.count("high"), kinds.count("low")]
        return Head(tokens, [-(-tokens[k] // self.s.held[k]) for k in range(2)])

    def grows(self, r: int, h: int) -> str:
        leaving = self.requests[r][1] + self.done[r] - 1 - self.s.window
        return "high" if leaving < 0 else self.kind(r, h, leaving)

    def lacks(self, head: Head, kind: str) -> int:
        k = ("high", "low", "pruned").index(kind)
        return int(k < 2 and head.tokens[k] == head.pages[k] * self.s.held[k])

    def grow(self, r: int, kinds: list[str]) -> None:
        for head, kind in zip(self.live[r], kinds, strict=True):
            if kind != "pruned":
                k = ("high", "low").index(kind)
                head.pages[k] += self.lacks(head, kind)
                head.tokens[k] += 1

    def bytes(self, r: int) -> int:
        return sum(head.tokens[0] * self.s.token[0] + head.tokens[1] * self.s.token[1] for head in self.live[r])

    def time(self, tokens: int, rows: int, pairs: float, cache: float, swapped: int) -> float:
        s = self.s
        self.result.swapped += swapped
        block = s.width * s.head_dim * (2 * s.heads + 2 * s.kv_heads) + 3 * s.width * s.ffn
        head = s.vocab * s.width
        weights = 2 * (s.blocks * block + head) if tokens else 0
        self.result.weights += weights
        linear = 2 * (s.blocks * block * tokens + head * rows)
        attention = 4 * s.blocks * s.heads * s.head_dim * pairs
        self.result.operations += linear + attention
        spent = {"memory": 0.0, "compute": 0.0, "link": swapped / s.link}
        for moved, computed in ((weights / s.bandwidth, linear / s.rate), (cache / s.bandwidth, attention / s.rate)):
            spent["memory" if moved >= computed else "compute"] += max(moved, computed)
        seconds = spent["memory"] + spent["compute"] + spent["link"]
        self.result.bound[max(spent, key=spent.__getitem__)] += seconds
        return seconds
