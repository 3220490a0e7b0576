"""Found by `make fuzz` (seed 179675875, program 409, pocl, simt):

result 0: 3 instead of 7 (float64: 7, allowed difference 0) at [1, 0, 0, 1]; 57 of 136 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'simt'


def program(i5):
    t5 = F.pad(i5,[-1, 0],'constant',-2)
    t6 = t5.reshape([34, -1, 1, 4])
    return [t6]


def inputs():
    i5 = filled(0, 'lattice', (17, 9), 'dense', torch.uint8)
    return [i5]


CALLS = [()]

