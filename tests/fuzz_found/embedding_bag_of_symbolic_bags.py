"""Found by `make fuzz` (seed 245062180, program 1084, pocl, vector):

HostResultError: Operator aten._embedding_bag.default was to return torch.int64 [2], as its shape function (the kernel for fake tensors) says, and returned torch.int64 [0]. That function is wrong, of 
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, True
DEVICE, PROFILE = 'pocl', 'vector'


def program(i0, i2):
    t4 = F.embedding_bag((i2%i0.shape[0]),i0,mode='sum')
    return [t4]


def inputs(B, D):
    i0 = filled(1048, 'lattice', (D, B), 'dense', torch.bfloat16).requires_grad_()
    i2 = filled(1211, 'lattice', (2, 1), 'dense', torch.int64)
    return [i0, i2]


CALLS = [(7, 2)]

