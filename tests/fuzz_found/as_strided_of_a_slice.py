"""Found by `make fuzz` (seed 541550110, program 837, pocl, simt):

RuntimeError: setStorage: sizes [1, 3], strides [1, 1], storage offset 4, and itemsize 4 requiring a storage size of 28 are out of bounds for storage of size 16
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'pocl', 'simt'


def program(i1):
    t2 = i1.as_strided([1, 3],[1, 1],1)
    return [t2]


def inputs():
    i1 = filled(4502, 'lattice', (1, 1), 'offset', torch.float32)
    return [i1]


CALLS = [()]
