"""Plug-ins: units, formats, schemes, models and fault libraries from entry points or from calls of `register`.

A distribution lists them in its metadata, in the groups `refemu.units`, `refemu.formats`, `refemu.schemes`,
`refemu.models` and `refemu.faults`. refemu reads the metadata of the environment once, for a list or for a name that is
not its own; it imports a module when a plug-in of it is used.
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
SLOW_S = 1.0  #: seconds of loading after which a plug-in is named


@dataclass(frozen=True)
class Origin:
    """The distribution of a plug-in."""

    distribution: str = ""  #: normalised name, "refemu-mx"; "" for refemu itself, and for things registered by call
    version: str = ""  #: of the distribution


@dataclass(frozen=True)
class Plug:
    """An entry point of a distribution in one of the groups."""

    kind: Kind
    name: str  #: of the unit, format, ...
    origin: Origin
    module: str  #: that defines it
    point: EntryPoint

    @property
    def key(self) -> str:
        """The unambiguous name: "refemu-mx/mx_encoder"."""
        return f"{self.origin.distribution}/{self.name}"


@dataclass(frozen=True)
class Broken:
    """An entry point that cannot be loaded, or that breaks a rule."""

    kind: Kind
    key: str  #: "refemu-mx/mx_encoder"
    version: str  #: of the distribution
    error: str  #: one line


class Unloadable(Refused):
    """A plug-in that fails to load."""


class PluginWarning(UserWarning):
    """A plug-in that fails to load, while the others still work."""


@functools.cache
def plugs(kind: Kind) -> tuple[Plug, ...]:
    """The entry points of one kind, sorted by key.

    Of several entry points with one key, as of a distribution that is installed twice, the first one counts.
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
    """The entry points of the environment, and the distributions whose entry points cannot be read."""
    try:
        return entry_points(), ()
    except Exception:  # the list of some distribution is malformed
        every = list(distributions())
        listed = [each for each in every if _lists(each)]
        torn = tuple(each for each in every if each not in listed)
        return EntryPoints(point for each in listed for point in each.entry_points), torn


def _lists(distribution: Distribution) -> bool:
    """Whether the entry points of a distribution can be read."""
    try:
        return distribution.entry_points is not None
    except Exception:
        return False


def anything(*kinds: Kind) -> bool:
    """Whether there is a plug-in of these kinds, installed or registered by call; loads nothing."""
    called = any(registry.called() for registry in _registries if registry.kind in kinds)
    return called or any(plugs(kind) or any(_torn(kind)) for kind in kinds)


def _torn(kind: Kind) -> Iterator[Broken]:
    """Yield distributions with plug-ins of a kind whose entry points cannot be read."""
    for each in _metadata()[1]:
        origin = _origin(each)
        if origin is not None and _mentions(each, f"refemu.{kind}s"):
            about = f"plug-in {each.name} {origin.version}: its entry_points.txt cannot be read"
            yield Broken(kind, origin.distribution, origin.version, about)


def _mentions(distribution: Distribution, group: str) -> bool:
    """Whether an unreadable list of entry points mentions a group, or is not text."""
    try:
        return group in (distribution.read_text("entry_points.txt") or "")
    except ValueError:
        return True


def _origin(distribution: Distribution | None) -> Origin | None:
    """The origin of an entry point; None for a distribution without a name, as after an interrupted removal."""
    if distribution is None:
        return Origin()
    try:
        name, version = distribution.name, distribution.version
    except Exception:  # metadata are missing or malformed
        return None
    return Origin(_normalised(name), version) if name else None


def _normalised(distribution: str) -> str:
    """Normalise the name of a distribution: "Refemu_MX" is "refemu-mx"."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@functools.cache
def packages() -> dict[str, tuple[Path, ...]]:
    """Folders of the packages with the plug-ins of each distribution; loads nothing."""
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
    """The distribution with plug-ins of one kind in the package of a module; Origin() if there is none."""
    top = module.partition(".")[0]
    return next((plug.origin for plug in plugs(kind) if plug.module.partition(".")[0] == top), Origin())


def _key(name: str) -> str:
    """A name with its distribution normalised."""
    distribution, slash, bare = name.rpartition("/")
    return f"{_normalised(distribution)}/{bare}" if slash else name


_registries: list["Registry[Any]"] = []


class Registry(Generic[T]):
    """Plug-ins of one kind by name."""

    def __init__(
        self, kind: Kind, known: Callable[[], Collection[str]], validate: Callable[[Any, str, Origin], T]
    ) -> None:
        """Create a registry.

        known: names of refemu itself. admit(thing, name, origin): checks a plug-in and returns it.
        """
        self.kind: Kind = kind
        self._known, self._validate = known, validate
        self._called: dict[str, T] = {}
        self._loaded: dict[str, T] = {}
        _registries.append(self)

    def register(self, thing: Any, name: str) -> T:
        """Add a plug-in by call, in place of an earlier one of that name. Refused: a name of refemu itself."""
        if name in self._known():
            raise Refused(f"{self.kind} {name}: refemu has a {self.kind} of this name; choose another name")
        self._called[name] = self._validate(thing, name, Origin())
        return self._called[name]

    def forget(self, name: str) -> None:
        """Undo `register`; ignore a name that is not registered."""
        self._called.pop(name, None)

    def reload(self) -> None:
        """Load each entry point again at its next use."""
        self._loaded.clear()

    def called(self) -> tuple[str, ...]:
        """Names of plug-ins registered by call."""
        return tuple(self._called)

    def holds(self, thing: object) -> bool:
        """Whether this object is registered or was loaded from an entry point."""
        return any(thing is each for each in (*self._called.values(), *self._loaded.values()))

    def knows(self, name: str) -> bool:
        """Whether a name is registered or is the name of an entry point; loads nothing."""
        name = _key(name)
        return name in self._called or any(name in (plug.name, plug.key) for plug in plugs(self.kind))

    def find(self, name: str) -> T:
        """Load a plug-in by name. Refused: the name is unknown or ambiguous; Unloadable: loading fails."""
        if name in self._called:
            return self._called[name]
        name = _key(name)
        there = {plug.key: plug for plug in plugs(self.kind)}
        same = [plug for plug in there.values() if plug.name == name]
        if len(same) > 1:
            keys = ", ".join(plug.key for plug in same)
            raise Refused(f"{self.kind} {name!r}: several distributions have it; give one of {keys}")
        if same:
            return self.load(same[0])
        if name in there:
            return self.load(there[name])
        distribution, slash, _ = name.partition("/")
        if slash:
            return lookup(self.kind, name, self._of_distribution(distribution, name))  # type: ignore[return-value]  # raises
        known = dict.fromkeys([*self._known(), *self.names()])
        return lookup(self.kind, name, known, f"refemu list {self.kind}s")  # type: ignore[return-value]

    def _of_distribution(self, distribution: str, name: str) -> dict[str, None]:
        """Keys of the plug-ins of a distribution. Refused: it is not installed or has none of this kind."""
        keys = [plug.key for plug in plugs(self.kind) if plug.origin.distribution == distribution]
        if distribution == "refemu":
            raise Refused(
                f"unknown {self.kind} {name!r}: a {self.kind} of refemu has no '/'; write {name.partition('/')[2]}"
            )
        if not distribution:
            raise Refused(f"unknown {self.kind} {name!r}: a distribution is needed before '/', got nothing")
        if not keys:
            raise Refused(
                f"unknown {self.kind} {name!r}: no distribution {distribution} with a {self.kind} is installed; "
                f"`refemu list {self.kind}s` lists all"
            )
        return dict.fromkeys(keys)

    def names(self) -> tuple[str, ...]:
        """The shortest unambiguous name of each plug-in, entry points first; loads nothing."""
        every = [plug.name for plug in plugs(self.kind)]
        taken = {*self._known(), *self._called}
        short = [
            plug.key if plug.name in taken or every.count(plug.name) > 1 else plug.name for plug in plugs(self.kind)
        ]
        return (*short, *self._called)

    def working(self) -> tuple[dict[str, T], tuple[Broken, ...]]:
        """Load all plug-ins; return those that work by name, and those that do not."""
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
        """Load an entry point once. Unloadable: loading fails, or the plug-in breaks a rule."""
        if plug.key not in self._loaded:
            about = f"plug-in {plug.origin.distribution} {plug.origin.version}: {self.kind} {plug.name}"
            try:
                with _announced(about):
                    self._loaded[plug.key] = self._validate(plug.point.load(), plug.name, plug.origin)
            except (Refused, RefusedType) as error:
                raise Unloadable(f"{about} is invalid: {error}") from error
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # code of others may raise anything when it is imported
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{last.filename}:{last.lineno}"
                raise Unloadable(
                    f"{about} does not load: {type(error).__name__}: {_message(error)} ({place})"
                ) from error
        return self._loaded[plug.key]


@contextmanager
def _announced(about: str) -> Iterator[None]:
    """Print what is being loaded if it takes longer than SLOW_S, since code of others may never return."""
    timer = threading.Timer(SLOW_S, lambda: sys.stderr and sys.stderr.write(f"refemu: {about}: is still loading\n"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _message(error: BaseException) -> str:
    """The message of an exception; formatting it may fail."""
    try:
        return str(error)
    except Exception:
        return "its message cannot be shown"


def refresh() -> None:
    """Read the metadata of the environment again at the next use, after an installation."""
    _metadata.cache_clear()
    plugs.cache_clear()
    packages.cache_clear()
    for registry in _registries:
        registry.reload()
