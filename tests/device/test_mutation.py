"""Writes that reach memory in unusual ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from agreement import agree, random, two_drivers

each_driver = pytest.mark.parametrize("driver", two_drivers())


@each_driver
@pytest.mark.filterwarnings("ignore:.*runs on the host")
def test_bytes_seen_as_another_dtype(driver: str) -> None:
    def fn(x: Any) -> Any:
        x.view(torch.int32).bitwise_xor_(1 << 31)
        return x.view(torch.int32), x + 1

    agree(fn, random(5, 7), device=driver, fallbacks=None, reference=False)
