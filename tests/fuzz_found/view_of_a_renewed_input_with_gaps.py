"""Found by `make fuzz` (views 1 459):

result 2: 0.7960923910140991 instead of 0.9571948051452637 (float64: 0.9571948051452637, allowed difference 2.4e-38) at [0, 0]; 170 of 170 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'intel', 'vector'


def program(i0):
    t2 = i0.transpose(1,-1)
    t2.select(1,-1).fill_(2)
    t5 = t2.chunk(3,1)[-1]
    return [t5]


def inputs(B, E):
    i0 = filled(4854, 'lattice', (B, E), 'gaps', torch.float32)
    return [i0]


CALLS = [(0, 128), (17, 64)]

