"""Campaigns of a regression, and their missing shards."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refemu import __version__
from refemu.arith.checks import Refused
from refemu.arith.reader_errors import reading
from refemu.golden.campaign import folder as folders
from refemu.golden.campaign.plan import SHARDS, RandomRequest
from refemu.golden.campaign.shards import LIST, slug
from refemu.golden.report import places


@dataclass(frozen=True)
class Campaign:
    """A campaign, from its folder and its request."""

    path: str  #: path in the folder of the regression
    shards: int  #: number of shards of the request; 0 if it is unreadable
    missing: tuple[str, ...]  #: missing shards, in order
    reason: str  #: why it is incomplete; "" if complete

    @property
    def whole(self) -> bool:
        """Whether every shard exists."""
        return not self.reason


def read(folder: Path, path: str) -> Campaign:
    """The campaign in `folder`. path: its name in the report."""
    try:
        with reading(path, "a campaign that this refemu knows"):
            stated = json.loads((folder / folders.REQUEST).read_bytes())
            if stated["schema"] != folders.SCHEMA or stated["refemu_version"] != __version__:
                raise Refused(f"{path}: is of schema {stated['schema']}, refemu {stated['refemu_version']}")
            expected = list(itertools.islice(_shards(stated["request"]), SHARDS + 1))
            if len(expected) > SHARDS:
                raise Refused(f"{path}: a campaign must have at most {SHARDS} shards, its request has more")
            missing = tuple(name for name, kept in expected if not _is_there(folder / name, kept))
    except (Refused, OSError) as refusal:
        return Campaign(path, 0, (), str(refusal))
    reason = f"{len(missing)} of {len(expected)} shards are missing" if missing else ""
    return Campaign(path, len(expected), missing, reason)


def _shards(request: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Folder of every shard, and whether it has several sets and their list."""
    if "tokens" not in request:
        yield from ((shard.name, False) for shard in RandomRequest(**request).shards())
        return
    for scheme in request["schemes"]:
        for first in range(0, request["tokens"], request["window"]):
            yield f"{slug(scheme)}/tokens-{first:08d}", True


def _is_there(place: Path, several: bool) -> bool:
    if not several:
        return places.is_set(place)
    listed = json.loads((place / LIST).read_bytes())["sets"] if (place / LIST).is_file() else None
    return listed is not None and all(places.is_set(place / name) for name in listed)
