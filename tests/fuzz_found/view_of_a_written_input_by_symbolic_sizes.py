"""Found by `make fuzz` (seed 559290493, program 3300, intel, simt):

result 0: 2.875 instead of 0.0 (float64: 0.0, allowed difference 2.4e-38) at [0, 0, 0, 0]; 1637 of 1664 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'intel', 'simt'


def program(i0):
    t0 = i0.mT
    t1 = torch.tensor_split(t0,3,-4)[-1]
    t1.zero_()
    return [t1]


def inputs(C, E):
    i0 = filled(2418, 'lattice', (C, E, C, C), 'dense', torch.float32)
    return [i0]


CALLS = [(1, 64), (8, 13)]

