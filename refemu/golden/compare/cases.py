"""Two versions of a set, case by case: added, removed, renamed and changed cases, and what changed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refemu.arguments import checked
from refemu.arith.checks import Refused
from refemu.golden.files import case_ids, sets
from refemu.golden.files.sets import Golden


@dataclass(frozen=True)
class CaseChanges:
    """Differences between the cases of two versions of a set."""

    old: str  #: name of the old set
    new: str  #: name of the new set
    equal: int  #: cases that are the same in both
    added: tuple[str, ...]  #: ids of cases that only the new one has
    removed: tuple[str, ...]  #: ids of cases that only the old one has
    renamed: Mapping[str, str]  #: old id -> new id of cases of the same stimulus
    changed: Mapping[str, tuple[str, ...]]  #: id -> what differs: ports, "why", "decision", "flags", "rows"

    @property
    def same(self) -> bool:
        """Whether no case differs."""
        return not (self.added or self.removed or self.renamed or self.changed)


@checked
def diff_cases(old: str | Path, new: str | Path) -> CaseChanges:
    """Compare two versions of a set case by case.

    Parameters
    ----------
    old, new : str or Path
        Directories of sets of one unit.

    Returns
    -------
    CaseChanges
        Cases that were added, removed, renamed and changed.

    Raises
    ------
    Refused
        A set is damaged, or the two are of different units.
    """
    before, after = sets.load(old), sets.load(new)
    if before.manifest["unit"] != after.manifest["unit"]:
        raise Refused(f"{new}: has cases of {after.manifest['unit']}, {old} of {before.manifest['unit']}")
    was, now = _cases(before), _cases(after)
    both = [id for id in was if id in now]
    changed = {id: parts for id in both if (parts := _differing(was[id], now[id]))}
    gone = {was[id]["digest"]: id for id in was if id not in now}
    fresh = {now[id]["digest"]: id for id in now if id not in was}
    renamed = {gone[digest]: fresh[digest] for digest in gone if digest in fresh}
    return CaseChanges(
        before.name,
        after.name,
        len(both) - len(changed),
        tuple(id for id in now if id not in was and id not in renamed.values()),
        tuple(id for id in was if id not in now and id not in renamed),
        renamed,
        changed,
    )


def _cases(golden: Golden) -> dict[str, dict[str, Any]]:
    """Digest of the stimulus, then all else of a case, port by port; by id."""
    table = {}
    for id, entry, rows in case_ids.of_cases(golden.manifest):
        parts: dict[str, Any] = {"why": entry["why"], "decision": entry.get("decision", ""), "rows": entry["rows"]}
        parts |= {name: array[rows].tobytes() for name, array in golden.arrays.items()}
        stimulus = b"".join(parts[name] for name in golden.arrays if name.startswith("in."))
        table[id] = {"digest": hashlib.sha256(stimulus).hexdigest(), **parts}
    return table


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    names = [name for name in {**old, **new} if name != "digest"]
    return tuple(name for name in names if old.get(name) != new.get(name))
