"""Found by `make fuzz` (seed 6, program 100, pocl, vector):

BackendCompilerFailed: TypeError: Invalid comparison of non-real zoo
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i0, i1, i2):
    t0 = F.linear(i0,i2,i1)
    return [t0]


def inputs(D, E):
    i0 = filled(7809, 'lattice', (D, E, E), 'dense', torch.float32)
    i1 = filled(7420, 'lattice', (1,), 'dense', torch.float32)
    i2 = filled(7825, 'normal', (1, E), 'dense', torch.float32)
    return [i0, i1, i2]


CALLS = [(64, 0)]
