"""Found by `make fuzz` (seed 5, program 1):

RuntimeError: more than one element of the written-to tensor refers to a single memory location
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i0, i1):
    t0 = F.conv2d(i0,i1,padding=2,groups=3)
    t1 = t0.as_strided([1,4,3,2],[0,2,0,1],2)
    t2 = t1*2
    return [t2]


def inputs():
    i0 = filled(0, 'lattice', (1, 3, 5, 5), 'dense', torch.float32)
    i1 = filled(0, 'lattice', (3, 1, 3, 3), 'dense', torch.float32)
    return [i0, i1]


CALLS = [()]
