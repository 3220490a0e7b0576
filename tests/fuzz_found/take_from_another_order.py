"""Found by `make fuzz` (seed 541550110, program 574, pocl, simt):

BackendCompilerFailed: AssertionError: only memory can be read at computed coordinates
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'simt'


def program(i1, i2, i5):
    t0 = F.conv2d(i1,i2,None,stride=1,padding=1,dilation=1,groups=1)
    t4 = torch.take(t0,(i5%t0.shape[0]))
    return [t4]


def inputs(A, E):
    i1 = filled(5148, 'lattice', (A, 2, 2, 2), 'dense', torch.float32)
    i2 = filled(6175, 'lattice', (E, 2, 1, 1), 'dense', torch.float32)
    i5 = filled(635, 'lattice', (E,), 'dense', torch.int64)
    return [i1, i2, i5]


CALLS = [(2, 1)]
