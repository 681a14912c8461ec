"""Golden vectors: generation, files, checks, comparison and export.

golden.generate("vec", units=["ovp_decoder"])   # directories vec/<unit>-<configuration>/
golden.check("vec").equal                       # every file regenerated and compared
golden.load("vec/ovp_decoder-int4").arrays      # after all checks of manifest and hashes
golden.diff("vec/ovp_decoder-int4", "dut.npz")  # the first difference, decoded
golden.grade_set("vec/ovp_decoder-int4").survivors  # injected faults that the set does not detect
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
