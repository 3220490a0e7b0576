"""Found by `make fuzz` (seed 944597841, program 295, intel, vector):

BackendCompilerFailed: NotImplementedError: index expression TruncToInt: TruncToInt(1.5*ToFloat(s93))
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'intel', 'vector'


def program(i0):
    t0 = F.interpolate(i0,scale_factor=1.5,mode='nearest-exact')
    return [t0]


def inputs(A):
    i0 = filled(77, 'lattice', (A, 1, 2), 'dense', torch.float32)
    return [i0]


CALLS = [(2,)]
