"""One matrix product through the whole accelerator, cycle-accurate: a step is a clock of its timeline."""

from refemu.units.harmonia.harmonia_core_clocked.harmonia_core_clocked import UNIT, HarmoniaCoreClocked, run

__all__ = ["UNIT", "HarmoniaCoreClocked", "run"]
