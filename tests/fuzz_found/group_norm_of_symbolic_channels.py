"""Found by `make fuzz` (seed 559290493, program 1818, pocl, vector):

RuntimeError: Expected X.is_contiguous(memory_format) to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i8):
    t4 = F.group_norm(i8,2)
    return [t4]


def inputs(B, D):
    i8 = filled(5977, 'normal', (1, B, D, D), 'last', torch.float32)
    return [i8]


CALLS = [(128, 3)]

