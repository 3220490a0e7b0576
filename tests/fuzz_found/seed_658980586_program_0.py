"""Found by `make fuzz` (seed 658980586, program 0, pocl-3.1, lazy):

IndexError: start out of range (expected to be in range of [0, 0], but got -1) (called in File '/work/h-lazy/fuzz/there.py', line 52, in run_there: outputs = list(function(*inputs)))
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE, MEMORY = 'pocl-3.1', 'auto', 'auto'
MODE = 'lazy'


def program(i0, i5):
    t0 = torch.clamp(i0,-0.25,None)
    t5 = i0.expand([-1, -1, -1])
    t6 = t5.mT
    t7 = t6.masked_fill(i5,-1.5)
    return [t7, t0]


def inputs():
    i0 = filled(2353, 'lattice', (0, 2, 1), 'dense', torch.float32)
    i5 = filled(946, 'normal', (0, 1, 1), 'dense', torch.bool)
    return [i0, i5]


CALLS = [()]

