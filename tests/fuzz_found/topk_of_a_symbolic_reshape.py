"""Found by `make fuzz` (seed 20261121, program 416, intel, simt):

BackendCompilerFailed: AssertionError: only memory can be read at computed coordinates
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'intel', 'simt'


def program(i0):
    t0 = i0.reshape([1, 11, 32, 99])
    t1 = torch.topk(t0,65,dim=-1,largest=True)[0]
    return [t1]


def inputs(A, B, D):
    i0 = filled(9128, 'normal', (A, D, D, B), 'dense', torch.float32)
    return [i0]


CALLS = [(2, 16, 33)]
