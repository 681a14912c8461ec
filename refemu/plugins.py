"""Plug-ins: what other distributions bring by entry points, and what is registered by call.

A distribution names its units, formats, schemes, models and fault libraries in its metadata, in the groups
`refemu.units`, `refemu.formats`, `refemu.schemes`, `refemu.models` and `refemu.faults`. The metadata of an environment
are read once, when a name is none of refemu's own or a list is wanted; a module is imported when something of it is
used.
"""

import functools
import importlib.util
import re
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, EntryPoints, distributions, entry_points
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_args

from refemu.arith.checks import Refused, RefusedType, lookup

T = TypeVar("T")
Kind: TypeAlias = Literal["unit", "format", "scheme", "model", "fault"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SLOW_S = 1.0  #: seconds after which a plug-in that is being loaded is named


@dataclass(frozen=True)
class Origin:
    """Distribution that something comes from."""

    distribution: str = ""  #: normalised name, "refemu-mx"; "" of what no distribution names: refemu's, or by call
    version: str = ""  #: of the distribution


@dataclass(frozen=True)
class Plug:
    """Entry point of a distribution in one of the groups."""

    kind: Kind
    name: str  #: of what it brings
    origin: Origin
    module: str  #: that it is found in
    point: EntryPoint

    @property
    def key(self) -> str:
        """The name that finds it whatever else is installed: "refemu-mx/mx_encoder"."""
        return f"{self.origin.distribution}/{self.name}"


@dataclass(frozen=True)
class Broken:
    """Entry point that could not be loaded, or that is refused."""

    kind: Kind
    key: str  #: "refemu-mx/mx_encoder"
    version: str  #: of the distribution
    error: str  #: one line


class Unloadable(Refused):
    """A plug-in that fails to load."""


class PluginWarning(UserWarning):
    """A plug-in that fails to load, where the rest goes on without it."""


@functools.cache
def plugs(kind: Kind) -> tuple[Plug, ...]:
    """The entry points of one kind, in the order of their keys.

    Several of one key, as of a distribution that is installed twice on a path, count once: the first is imported.
    """
    by_key: dict[str, Plug] = {}
    for point in _metadata()[0].select(group=f"refemu.{kind}s"):
        origin = _origin(point.dist)
        if origin is not None:
            plug = Plug(kind, point.name, origin, point.module, point)
            by_key.setdefault(plug.key, plug)
    return tuple(by_key[key] for key in sorted(by_key))


@functools.cache
def _metadata() -> tuple[Any, tuple[Distribution, ...]]:
    """The entry points of the environment, and the distributions whose list of them cannot be read."""
    try:
        return entry_points(), ()
    except Exception:  # of a malformed list of any distribution
        every = list(distributions())
        listed = [each for each in every if _lists(each)]
        torn = tuple(each for each in every if each not in listed)
        return EntryPoints(point for each in listed for point in each.entry_points), torn


def _lists(distribution: Distribution) -> bool:
    """Whether a distribution's list of entry points can be read."""
    try:
        return distribution.entry_points is not None
    except Exception:
        return False


def anything(*kinds: Kind) -> bool:
    """Whether a distribution brings something of these kinds, or it was registered by call; nothing is loaded."""
    called = any(registry.called() for registry in _registries if registry.kind in kinds)
    return called or any(plugs(kind) or any(_torn(kind)) for kind in kinds)


def _torn(kind: Kind) -> Iterator[Broken]:
    """Distributions that bring things of a kind in a list that cannot be read."""
    for each in _metadata()[1]:
        origin = _origin(each)
        if origin is not None and _mentions(each, f"refemu.{kind}s"):
            about = f"plug-in {each.name} {origin.version}: its entry_points.txt cannot be read"
            yield Broken(kind, origin.distribution, origin.version, about)


def _mentions(distribution: Distribution, group: str) -> bool:
    """Whether a list of entry points that cannot be read names a group, or is no text at all."""
    try:
        return group in (distribution.read_text("entry_points.txt") or "")
    except ValueError:
        return True


def _origin(distribution: Distribution | None) -> Origin | None:
    """Where an entry point comes from; None of a distribution without a name, as a removal that was cut off leaves."""
    if distribution is None:
        return Origin()
    try:
        name, version = distribution.name, distribution.version
    except Exception:  # there are no metadata, or not as they should be
        return None
    return Origin(_normalised(name), version) if name else None


def _normalised(distribution: str) -> str:
    """A distribution's name as an index writes it: "Refemu_MX" is "refemu-mx"."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@functools.cache
def packages() -> dict[str, tuple[Path, ...]]:
    """Folders of the packages in which each distribution has its plug-ins; nothing is loaded."""
    tops: dict[str, set[str]] = {}
    for kind in KINDS:
        for plug in plugs(kind):
            tops.setdefault(plug.origin.distribution, set()).add(plug.module.partition(".")[0])
    specs = {name: [importlib.util.find_spec(top) for top in sorted(each)] for name, each in tops.items()}
    return {
        name: tuple(Path(folder) for spec in some if spec for folder in spec.submodule_search_locations or ())
        for name, some in specs.items()
    }


def origin_of(kind: Kind, module: str) -> Origin:
    """The distribution that brings things of one kind from the package of a module; Origin() if none does."""
    top = module.partition(".")[0]
    return next((plug.origin for plug in plugs(kind) if plug.module.partition(".")[0] == top), Origin())


def _key(name: str) -> str:
    """A name, its distribution as an index writes it."""
    distribution, slash, bare = name.rpartition("/")
    return f"{_normalised(distribution)}/{bare}" if slash else name


_registries: list["Registry[Any]"] = []


class Registry(Generic[T]):
    """Things of one kind that are not refemu's own, by name."""

    def __init__(
        self, kind: Kind, known: Callable[[], Collection[str]], validate: Callable[[Any, str, Origin], T]
    ) -> None:
        """Make a registry.

        known: names of refemu itself. admit(thing, name, origin): the thing; Refused: it breaks a rule.
        """
        self.kind: Kind = kind
        self._known, self._validate = known, validate
        self._called: dict[str, T] = {}
        self._loaded: dict[str, T] = {}
        _registries.append(self)

    def register(self, thing: Any, name: str) -> T:
        """Add a thing by call: it takes the place of an earlier one of that name. Refused: a name of refemu's own."""
        if name in self._known():
            raise Refused(f"{self.kind} {name}: refemu has one of that name; give yours another name")
        self._called[name] = self._validate(thing, name, Origin())
        return self._called[name]

    def forget(self, name: str) -> None:
        """Take back `register`; nothing happens where the name is not registered."""
        self._called.pop(name, None)

    def reload(self) -> None:
        """Load entry points anew at their next use."""
        self._loaded.clear()

    def called(self) -> tuple[str, ...]:
        """Names of what was registered by call."""
        return tuple(self._called)

    def holds(self, thing: object) -> bool:
        """Whether this very thing is registered, or was loaded from an entry point."""
        return any(thing is each for each in (*self._called.values(), *self._loaded.values()))

    def knows(self, name: str) -> bool:
        """Whether a name is registered or an entry point's; nothing is loaded."""
        name = _key(name)
        return name in self._called or any(name in (plug.name, plug.key) for plug in plugs(self.kind))

    def find(self, name: str) -> T:
        """Load what a name stands for. Refused: nothing, or several distributions have it; Unloadable: it fails."""
        if name in self._called:
            return self._called[name]
        name = _key(name)
        there = {plug.key: plug for plug in plugs(self.kind)}
        same = [plug for plug in there.values() if plug.name == name]
        if len(same) > 1:
            keys = ", ".join(plug.key for plug in same)
            raise Refused(f"{self.kind} {name!r}: several distributions have one: {keys}; give one of these")
        if same:
            return self.load(same[0])
        if name in there:
            return self.load(there[name])
        distribution, slash, _ = name.partition("/")
        if slash:
            return lookup(self.kind, name, self._of_distribution(distribution, name))  # type: ignore[return-value]  # it refuses
        return lookup(self.kind, name, dict.fromkeys([*self._known(), *self.names()]))  # type: ignore[return-value]

    def _of_distribution(self, distribution: str, name: str) -> dict[str, None]:
        """Keys of what an installed distribution brings. Refused: it is none that could bring `name`."""
        keys = [plug.key for plug in plugs(self.kind) if plug.origin.distribution == distribution]
        if distribution == "refemu":
            raise Refused(
                f"unknown {self.kind} {name!r}: refemu's own go by their name alone, {name.partition('/')[2]}"
            )
        if not distribution:
            raise Refused(f"unknown {self.kind} {name!r}: a distribution must stand before '/', got nothing")
        if not keys:
            raise Refused(
                f"unknown {self.kind} {name!r}: it is of distribution {distribution}, which is not installed here or "
                f"brings no {self.kind}; refemu list {self.kind}s shows what is here"
            )
        return dict.fromkeys(keys)

    def names(self) -> tuple[str, ...]:
        """The shortest name that finds each thing, those of entry points first; nothing is loaded."""
        every = [plug.name for plug in plugs(self.kind)]
        taken = {*self._known(), *self._called}
        short = [
            plug.key if plug.name in taken or every.count(plug.name) > 1 else plug.name for plug in plugs(self.kind)
        ]
        return (*short, *self._called)

    def working(self) -> tuple[dict[str, T], tuple[Broken, ...]]:
        """Load everything: what works by name, and what does not."""
        things: dict[str, T] = {}
        broken = []
        for name in self.names():
            try:
                things[name] = self.find(name)
            except Unloadable as error:
                plug = next(plug for plug in plugs(self.kind) if name in (plug.name, plug.key))
                broken.append(Broken(self.kind, plug.key, plug.origin.version, str(error)))
        return things, (*broken, *_torn(self.kind))

    def load(self, plug: Plug) -> T:
        """Load what an entry point stands for, once. Unloadable: it fails, or is refused."""
        if plug.key not in self._loaded:
            about = f"plug-in {plug.origin.distribution} {plug.origin.version}: {self.kind} {plug.name}"
            try:
                with _announced(about):
                    self._loaded[plug.key] = self._validate(plug.point.load(), plug.name, plug.origin)
            except (Refused, RefusedType) as error:
                raise Unloadable(f"{about} is refused: {error}") from error
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever the code of others raises at its import
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{last.filename}:{last.lineno}"
                raise Unloadable(
                    f"{about} does not load: {type(error).__name__}: {_message(error)} ({place})"
                ) from error
        return self._loaded[plug.key]


@contextmanager
def _announced(about: str) -> Iterator[None]:
    """Say on standard error what is being loaded once that takes SLOW_S: code of others may never come back."""
    timer = threading.Timer(SLOW_S, lambda: sys.stderr and sys.stderr.write(f"refemu: {about}: is still loading\n"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _message(error: BaseException) -> str:
    """What an exception says, which may itself fail."""
    try:
        return str(error)
    except Exception:
        return "its message cannot be shown"


def refresh() -> None:
    """Read the metadata of the environment again at the next use: something was installed since."""
    _metadata.cache_clear()
    plugs.cache_clear()
    packages.cache_clear()
    for registry in _registries:
        registry.reload()
