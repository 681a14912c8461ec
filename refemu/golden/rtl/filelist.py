"""Sources of a core for the cocotb testbench, from the Makefile's variables and a file list.

cocotb builds in its own folder, so every path becomes absolute.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from refemu.arith.checks import Refused
from refemu.arith.reader_errors import contents, reading

DEPTH = 20  #: depth of nested lists
LONGEST = 1 << 20  #: bytes of a list


@dataclass
class Sources:
    """Words of a build."""

    files: list[str] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    defines: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)  #: options of the simulator

    @classmethod
    def of_environment(cls, simulator: str, variables: Mapping[str, str] | None = None) -> "Sources":
        """Sources from FILELIST, DEVICE, SHELL_V, INCLUDE, DEFINES and FLAGS."""
        environment = os.environ if variables is None else variables
        sources = cls()
        for name in environment.get("FILELIST", "").split():
            sources.read(Path(name))
        sources.files += [
            str(Path(name).resolve()) for name in f"{environment.get('DEVICE', '')} {environment['SHELL_V']}".split()
        ]
        sources.includes += [str(Path(name).resolve()) for name in environment.get("INCLUDE", "").split()]
        for name in environment.get("DEFINES", "").split():
            sources.define(name)
        sources.words += environment.get("FLAGS", "").split()
        if simulator == "verilator":
            sources.words += ["-Wno-fatal", "--timing"]
        else:
            sources.words += ["-g2012", "-Wportbind"]
        return sources

    def define(self, word: str) -> None:
        """NAME or NAME=VALUE."""
        name, _, value = word.partition("=")
        self.defines[name] = value or "1"

    def read(self, path: Path, above: tuple[Path, ...] = ()) -> None:
        """A file list: sources, +incdir+, +define+, -I, -D, other lists by -f; `//` and `#` comments, $VARIABLES.

        above: the lists that name it. Refused: a missing file, a list that names itself, an unreadable one.
        """
        path = path.absolute()
        if path in above or len(above) > DEPTH:
            raise Refused(f"{path}: file lists must not name themselves, nor be nested deeper than {DEPTH}")
        if not path.is_file():
            raise Refused(f"{path}: no such file list")
        with reading(str(path), "a file list in UTF-8"):
            text = contents(path, LONGEST, str(path)).decode("utf-8")
            words = iter(os.path.expandvars(re.sub(r"//.*|^[ \t]*#.*", "", text, flags=re.MULTILINE)).split())
            for word in words:
                if word in ("-f", "-F", "-c"):
                    self.read(Path(next(words, "")), (*above, path))
                else:
                    self._take(word)

    def _take(self, word: str) -> None:
        """One word of a file list."""
        if word.startswith("+incdir+"):
            self.includes += [str(Path(name).resolve()) for name in word.split("+")[2:] if name]
        elif word.startswith("+define+"):
            for name in filter(None, word.split("+")[2:]):
                self.define(name)
        elif word[:2] in ("-I", "-D") and len(word) > 2:
            if word[1] == "I":
                self.includes.append(str(Path(word[2:]).resolve()))
            else:
                self.define(word[2:])
        elif word[0] in "-+":
            self.words.append(word)
        else:
            self.files.append(str(Path(word).resolve()))
