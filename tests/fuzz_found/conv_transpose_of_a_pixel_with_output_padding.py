"""Found by `make fuzz` (seed 559290493, program 1380, pocl, simt):

result 0: 1.0 instead of 0.0 (float64: 0.0, allowed difference 2.4e-38) at [0, 0, 0, 1]; 3 of 4 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'pocl', 'simt'


def program(i1, i2):
    t0 = F.conv_transpose2d(i1,i2,None,stride=1,padding=0,output_padding=1,dilation=2,groups=1)
    return [t0]


def inputs():
    i1 = filled(2934, 'lattice', (1, 1, 1, 1), 'dense', torch.float32)
    i2 = filled(4714, 'lattice', (1, 1, 1, 1), 'dense', torch.float32)
    return [i1, i2]


CALLS = [()]

