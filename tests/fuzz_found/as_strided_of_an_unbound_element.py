"""Found by `make fuzz` (seed 425774657, program 957, pocl, simt):

result 0: nan instead of -1.8967920541763306 (float64: -1.8967920541763306, allowed difference 2.4e-38) at []; 1 of 1 elements
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'pocl', 'simt'


def program(i2):
    t1 = torch.select_scatter(i2,i2.select(0,0),0,-1)
    t2 = t1.unbind(-1)[0]
    t3 = t2.as_strided([],[],2)
    return [t3]


def inputs():
    i2 = filled(9620, 'normal', (3,), 'dense', torch.float32)
    return [i2]


CALLS = [()]

