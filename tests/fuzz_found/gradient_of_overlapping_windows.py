"""Found by `make fuzz` (seed 20261121, program 577):

result 2: gradients of a result whose elements overlap in memory
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, True
DEVICE, PROFILE = 'pocl', 'vector'


def program(i0):
    t0 = i0*2
    t1 = t0.unfold(0,4,3)
    return [t1]


def inputs():
    i0 = filled(0, 'lattice', (10, 3), 'dense', torch.float32).requires_grad_()
    return [i0]


CALLS = [()]
