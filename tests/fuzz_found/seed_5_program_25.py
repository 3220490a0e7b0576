"""Found by `make fuzz` (seed 5, program 25, intel, lazy):

RuntimeError: setStorage: sizes [2], strides [1], storage offset 0, and itemsize 4 requiring a storage size of 8 are out of bounds for storage of size 0
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE, MEMORY = 'intel', 'auto', 'auto'
MODE = 'lazy'


def program(i4, i5):
    t4 = torch.stack([i4,i5],0)
    t7 = torch.select_scatter(t4,t4.select(0,0),0,-1)
    return [t7]


def inputs():
    i4 = filled(1, 'normal', (2,), 'dense', torch.float32)
    i5 = filled(2, 'normal', (2,), 'dense', torch.float32)
    return [i4, i5]


CALLS = [()]

