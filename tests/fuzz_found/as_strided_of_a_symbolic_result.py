"""Found by `make fuzz` (seed 559290493, program 286, pocl, vector):

BackendCompilerFailed: HiddenLayoutError: as_strided addresses the memory behind a part of a tensor that the compiled graph makes, and does not surely stay inside: that tensor lies elsewhere here than
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i0):
    t0 = F.pad(i0,[-1, -1, 1, 1],'constant',1)
    t1 = F.normalize(t0,dim=-2)
    t2 = t1.as_strided([3, 4],[64, 1],1)
    return [t2]


def inputs(B, D):
    i0 = filled(5697, 'normal', (B, D), 'dense', torch.float32)
    return [i0]


CALLS = [(1, 67)]

