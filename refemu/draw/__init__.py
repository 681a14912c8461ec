"""Drawings of formats and hardware blocks, as SVG without scripts, in light and dark.

draw.pair(formats.OVP_INT4, 0x85)                  # bits of a pair word and what they are
draw.page(formats.UnifiedPage(128, formats.K8V4))  # sections of a page
draw.state(orizuru.UNIT, "n8", device.state)       # a unit after an event; "" where it has no drawing

A notebook shows the same for a device, a State and a tensor.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
