"""Found by `make fuzz` (seed 1921144721, program 612, intel, vector):

result 1: -0.002675652503967285 instead of -0.002675717929378152 (float64: -0.0026756983248778805, allowed difference 3.8e-08) at []; 1 of 1 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'intel', 'vector'


def program(i0, i1):
    t0 = torch.special.ndtri(torch.clamp(i0,-4,4)/10+0.5)
    t1 = i1.to(torch.float64)
    t3 = t0*2
    t4, t5 = torch.var_mean(t3,dim=[0, -3, 3, 2],keepdim=False)
    return [t1, t5]


def inputs():
    i0 = filled(8473, 'lattice', (3, 2, 3, 16384), 'gaps', torch.float32)
    i1 = filled(1883, 'lattice', (32768, 5), 'dense', torch.uint8)
    return [i0, i1]


CALLS = [()]

