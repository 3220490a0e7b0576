"""Found by `make fuzz` (seed 5511, program 0, intel, lazy):

result 0: strides (4, 2, 2, 1) instead of (2, 134, 2, 1) of [67, 2, 1, 2]
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE, MEMORY = 'intel', 'auto', 'auto'
MODE = 'lazy'


def program(i2, i5):
    t2 = torch.view_as_real(torch.fft.fft(torch.complex(i2,i5),n=1,dim=-1))
    return [t2]


def inputs(B):
    i2 = filled(9138, 'lattice', (B, 2, 1), 'reversed', torch.float32)
    i5 = filled(1083, 'lattice', (B, 2, 1), 'dense', torch.float32)
    return [i2, i5]


CALLS = [(67,)]

