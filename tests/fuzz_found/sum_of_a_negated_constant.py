"""Found by `make fuzz` (seed 425774657, program 1539, intel, simt):

result 0: 0.047393798828125 instead of 1.564453125 (float64: 1.5641679385841636, allowed difference 0.035) at []; 1 of 1 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'intel', 'simt'


def program(i2, i8):
    t2 = F.multilabel_soft_margin_loss(i2,torch.sigmoid(i8),reduction='none')
    return [t2]


def inputs(A):
    i2 = filled(1333, 'lattice', (A,), 'expanded', torch.float16)
    i8 = filled(4580, 'lattice', (A,), 'expanded', torch.float16)
    return [i2, i8]


CALLS = [(33,)]

