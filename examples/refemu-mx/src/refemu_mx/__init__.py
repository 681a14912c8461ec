"""OCP MX and NVFP4 block formats as units of refemu [ocp MX 1.0].

Elements and scales are in `elements`; the units are `mx_encoder`, `mx_converter`, `mx_dot` and `nvfp4_encoder`.
"""

from refemu_mx.elements import E2M1, E2M3, E3M2, E4M3, E5M2, E8M0, ELEMENTS, INT8, Element, Scale

__all__ = ["E2M1", "E2M3", "E3M2", "E4M3", "E5M2", "E8M0", "ELEMENTS", "INT8", "Element", "Scale"]
