"""Found by `make fuzz` (seed 1148149946, program 1029, intel, simt):

RuntimeError: as_strided: Negative strides are not supported at the moment, got strides: [9, 3, -73]
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'intel', 'simt'


def program(i3, i4, i5):
    t1 = F.conv2d(i3,i4,i5,stride=1,padding=2,dilation=1,groups=4)
    t2 = torch.diagonal_scatter(t1,t1.diagonal(0,-1,0).flip(-1),0,-1,0)
    return [t2]


def inputs(D, E):
    i3 = filled(692, 'lattice', (E, 12, 1, 1), 'dense', torch.float32)
    i4 = filled(8657, 'normal', (D, E, E, E), 'dense', torch.float32)
    i5 = filled(3008, 'lattice', (D,), 'dense', torch.float32)
    return [i3, i4, i5]


CALLS = [(8, 3)]
