"""Found by `make fuzz` (seed 102, program 46, rusticl, vector, discrete):

result 4: -60.75 instead of -66.75 (float64: -66.75, allowed difference 2.4e-38) at []; 1 of 1 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, True
DEVICE, PROFILE, MEMORY = 'rusticl', 'vector', 'discrete'
MODE = ''


def program(i0, i1, i2):
    t2 = torch.rsub(i0,i0,alpha=2)
    t3 = torch.where(i1,i2,t2)
    return [t3]


def inputs(B):
    i0 = filled(2549, 'normal', (B, B, 2), 'dense', torch.float32)
    i1 = filled(692, 'lattice', (B, 1, 2), 'dense', torch.bool)
    i2 = filled(9887, 'lattice', (), 'dense', torch.float32).requires_grad_()
    return [i0, i1, i2]


CALLS = [(5,), (100,)]

