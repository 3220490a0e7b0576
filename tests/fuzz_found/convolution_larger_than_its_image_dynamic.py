"""Found by `make fuzz` (seed 1148149946, program 194, pocl, vector):

crash: SIGABRT
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i1, i2):
    t1 = F.conv2d(i1,i2,None,stride=2,padding=1,dilation=1,groups=1)
    return [t1]


def inputs():
    i1 = filled(6232, 'lattice', (3, 1, 4, 3), 'dense', torch.bfloat16)
    i2 = filled(3572, 'normal', (3, 1, 4, 4), 'dense', torch.bfloat16)
    return [i1, i2]


CALLS = [()]
