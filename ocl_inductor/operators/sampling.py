"""What ATen's grid samplers mean by their numbers (``GridSamplerUtils.h``)."""

from __future__ import annotations

LINEAR, NEAREST, CUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
