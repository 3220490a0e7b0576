"""Found by `make fuzz` (seed 425774657, program 1553, pocl, vector):

BackendCompilerFailed: KernelBuildError: The OpenCL driver could not build kernel 'pointwise_adaptive_avg_pool2d'.
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE = 'pocl', 'vector'


def program(i1, i2, i3, i4):
    t0 = F.conv_transpose1d(i1,i2,i3,stride=2,padding=0,output_padding=0,dilation=1,groups=1)
    t1 = t0.split(2,2)[-1]
    t4 = torch.matmul(i4,i4.mT)
    t6 = F.adaptive_avg_pool2d(t4,4)
    return [t1, t6]


def inputs():
    i1 = filled(379, 'normal', (1, 1, 5), 'dense', torch.float64)
    i2 = filled(2972, 'lattice', (1, 1, 5), 'dense', torch.float64)
    i3 = filled(1499, 'normal', (1,), 'dense', torch.float32)
    i4 = filled(0, 'lattice', (1, 1, 5, 1), 'dense', torch.float32)
    return [i1, i2, i3, i4]


CALLS = [()]

