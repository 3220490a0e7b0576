"""Found by `make fuzz` (seed 1880778167, program 1278, intel, vector):

result 1: 0.0 instead of 0.15137603878974915 (float64: 0.15137603133916855, allowed difference 7.2e-07) at [0, 0, 1, 1]; 1 of 9 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'intel', 'vector'


def program(i2, i3):
    t5 = F.conv2d(i3,i2,None,stride=2,padding=2,dilation=1,groups=1)
    t6 = torch.std_mean(t5,dim=[2, -3, 3],keepdim=False)[0]
    t5.clamp_(-1,1)
    return [t6, t5]


def inputs():
    i2 = filled(8248, 'normal', (1, 1, 1, 1), 'dense', torch.float32)
    i3 = filled(0, 'lattice', (1, 1, 1, 1), 'dense', torch.float32)
    return [i2, i3]


CALLS = [()]

