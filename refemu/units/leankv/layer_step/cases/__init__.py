"""Golden cases of layer_step, for one request and for several. [leankv §4 Algorithm 1, §5.3]"""

from refemu.units.leankv.layer_step.cases.history import History, Prompt
from refemu.units.leankv.layer_step.cases.several import Batch
from refemu.units.leankv.layer_step.cases.single import closes, edge, legal, paper, random

__all__ = ["Batch", "History", "Prompt", "closes", "edge", "legal", "paper", "random"]
