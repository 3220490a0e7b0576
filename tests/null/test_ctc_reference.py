"""What the templates of ctc_loss are specified by, against PyTorch's own."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from ocl_inductor.templates.ctc.ctc import CTC_GRADIENT, CTC_STATES


def test_references_are_eagers() -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 5, dtype=torch.float64).log_softmax(-1).requires_grad_()
    targets = torch.tensor([3, 3, 1, 4])
    loss = F.ctc_loss(x, targets, (9,), (4,), blank=2, reduction="sum")
    loss.backward()
    problem = (x.detach().numpy(), targets.numpy(), 9, 4, 2)
    alpha = CTC_STATES.reference(*problem)
    np.testing.assert_allclose(-np.logaddexp(alpha[-1, -1], alpha[-1, -2]), loss.item())
    assert x.grad is not None
    np.testing.assert_allclose(CTC_GRADIENT.reference(*problem), x.grad.numpy(), atol=1e-12)
