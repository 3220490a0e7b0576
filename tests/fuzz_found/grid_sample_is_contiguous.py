"""Found by `make fuzz` (seed 541550110, program 714, intel, vector):

result 0: strides (4, 2, 1, 2) instead of (4, 4, 2, 1) of [2, 1, 2, 2]
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'intel', 'vector'


def program(i1, i2):
    t1 = F.grid_sample(i1,i2,mode='bicubic',padding_mode='border',align_corners=False)
    return [t1]


def inputs():
    i1 = filled(4757, 'normal', (2, 1, 1, 1), 'dense', torch.float32)
    i2 = filled(3166, 'normal', (2, 2, 2, 2), 'last', torch.float32)
    return [i1, i2]


CALLS = [()]
