"""Found by `make fuzz` (seed 1880778167, program 86, pocl, vector):

result 1: nan instead of -24.125 (float64: -24.125, allowed difference 4.5e-308) at [0, 0]; 4 of 4 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i0, i1, i4):
    t0 = i0.as_strided([2, 2, 4, 9],[1, 1, 66, 2],0)
    t1 = t0[(i1%t0.shape[0])]
    t2 = torch.stack([i0,i0,i0],-1)
    t4 = t1.as_strided([1, 4, 7],[1, 0, 1],0)
    t5 = torch.matmul(t4,i4)
    return [t2, t5]


def inputs():
    i0 = filled(7941, 'lattice', (4, 4, 2, 4), 'gaps', torch.float64)
    i1 = filled(8262, 'normal', (), 'dense', torch.int64)
    i4 = filled(7679, 'lattice', (7,), 'dense', torch.float64)
    return [i0, i1, i4]


CALLS = [()]

