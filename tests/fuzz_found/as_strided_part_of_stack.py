"""Found by `make fuzz` (seed 205232424, program 738, pocl, vector):

BackendCompilerFailed: VerifyError: The output of stage 'schedule' is not valid: ['buf2'] read before being stored. This is a bug of the backend; run with TORCH_COMPILE_DEBUG=1 and report the folder i
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = False, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i2):
    t4 = torch.stack([i2,i2,i2],0)
    t5 = t4.as_strided([1],[2],2)
    return [t5]


def inputs():
    i2 = filled(1320, 'lattice', (), 'dense', torch.bool)
    return [i2]


CALLS = [()]

