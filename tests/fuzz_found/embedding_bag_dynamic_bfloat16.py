"""Found by `make fuzz` (seed 205232424, program 1649, pocl, simt):

RuntimeError: The size of tensor a (4) must match the size of tensor b (0) at non-singleton dimension 0
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'simt'


def program(i0, i6):
    t5 = F.embedding_bag((i6%i0.shape[0]),i0,mode='sum')
    return [t5]


def inputs(A, C, D):
    i0 = filled(9346, 'lattice', (D, C), 'dense', torch.bfloat16)
    i6 = filled(7720, 'normal', (4, A), 'dense', torch.int64)
    return [i0, i6]


CALLS = [(1, 8, 129)]

