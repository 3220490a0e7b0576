"""Found by `make fuzz` (seed 205232424, program 1213, pocl, vector):

result 3: nan instead of 0.0625 (float64: 0.0624390243902439, allowed difference 0.0095) at [0, 0, 0, 0]; 2 of 2 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, True
DEVICE, PROFILE = 'pocl', 'vector'


def program(i0):
    t0 = torch.atan2(i0,i0.abs()+0.5)
    t1 = t0.amax(dim=[-4, -3, 3, 2],keepdim=True)
    return [t0, t1]


def inputs():
    i0 = filled(9518, 'normal', (1, 2, 1, 1), 'dense', torch.bfloat16).requires_grad_()
    return [i0]


CALLS = [()]

