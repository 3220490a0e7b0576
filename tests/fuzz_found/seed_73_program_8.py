"""Found by `make fuzz` (seed 73, program 8, rusticl, resident, discrete):

BackendCompilerFailed: KernelBuildError: The OpenCL driver could not build kernel 'pointwise_scalar_tensor_convert_element_type'.
"""

import torch
from torch.nn import functional as F

from fuzz.values import filled

DYNAMIC, BACKWARD = True, False
DEVICE, PROFILE, MEMORY = 'rusticl', 'auto', 'discrete'
MODE = 'resident'


def program(i2):
    t4 = F.interpolate(i2,size=(5,7),mode='bilinear',align_corners=True)
    return [t4]


def inputs():
    i2 = filled(0, 'lattice', (2, 2, 2, 1), 'dense', torch.float32)
    return [i2]


CALLS = [()]

