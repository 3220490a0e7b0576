"""Found by `make fuzz` (seed 1061145971, program 2, pocl-3.0, lazy, discrete):

IndexError: start out of range (expected to be in range of [0, 0], but got -1) (called in the backward pass)
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, True
DEVICE, PROFILE, MEMORY = 'pocl-3.0', 'auto', 'discrete'
MODE = 'lazy'


def program(i3, i4, i5):
    t3 = torch.where(i3,i4,i5)
    return [t3]


def inputs():
    i3 = filled(4856, 'normal', (0, 1), 'dense', torch.bool)
    i4 = filled(927, 'lattice', (1, 0, 1), 'dense', torch.float64)
    i5 = filled(0, 'lattice', (0, 1), 'dense', torch.float32).requires_grad_()
    return [i3, i4, i5]


CALLS = [()]

