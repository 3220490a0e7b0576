"""When Winograd's algorithm pays, and in how many kernels.

Best ms on Intel's driver of one kernel, of two and of three, on two cores with AVX-512 and 32 MiB
of cache. Weights that are kept between calls are at the points already in the first and the last,
where they take four times their memory:

  layer, batch      weights  tiles    kept:   1     2     3    anew:   1     2     3   direct
  64, 56^2, 4         0.6 MB    784         1.46        1.82         1.67  2.37          3.38
  128, 28^2, 4        2.4 MB    196         1.22  1.60               1.83  1.75          3.50
  192, 14^2, 1        5.3 MB     16                                        0.83  1.37    1.26
  256, 14^2, 1        9.4 MB     16               0.78  0.69               0.61  1.34    1.12
  256, 14^2, 4        9.4 MB     64         2.22  1.66  1.57               2.57  2.90    4.11
  256, 28^2, 8        9.4 MB    392         8.93  13.2  11.8         10.2  11.4          24.1
  320, 64^2, 2       14.7 MB    512         19.9  22.2               24.9  22.8          49.3
  512, 7^2, 1        37.7 MB      4               1.31  1.39               1.24  5.53    2.57
  512, 7^2, 4        37.7 MB     16               2.04  2.30               2.84  6.95    5.43
  512, 28^2, 1       37.7 MB     49         6.59  4.78  4.76               5.49  9.43    13.6
  512, 28^2, 4       37.7 MB    196         22.8  18.6  15.8               20.1  21.7    50.4
  512, 14^2, 16      37.7 MB    256         30.0  28.4  24.7               25.9  26.0    49.2
  640, 32^2, 2       59.0 MB    128         30.7  21.0  18.8
  1024, 14^2, 1       151 MB     16               8.2   9.7
  1280, 16^2, 2       236 MB     32         50.8  20.0  20.6

On a Zen 5 two are level with three for 256, 56^2, 1 and 256, 28^2, 4 (196 tiles; PoCL: 4 % faster)
and keep nothing, so they may have as many tiles: that is 24 MB of vgg16.

Gradients of weights, by a direct sum and so (Intel's driver, two cores, AVX-512):

  layer, batch    direct  so      layer, batch     direct  so
  64, 56^2, 4       4.98  3.19    256, 14^2, 4       3.66  2.26
  64, 224^2, 1      17.5  20.9    256, 56^2, 4       94.0  36.8
  128, 56^2, 8      33.0  19.7    512, 7^2, 4        4.61  3.15
"""

from __future__ import annotations

from dataclasses import dataclass

from ocl_inductor.device.facts import DeviceInfo
from ocl_inductor.templates.tuned_values import tuned_values


@dataclass(frozen=True, slots=True)
class WinogradCosts:
    """Costs for each weight, in multiplications of the direct sum, where nothing else is said."""

    #: Below this many channels the transforms cost more than the products save.
    min_channels: int
    #: Of a tile at all points with its transforms; of reading the weight's 36 numbers instead of 9;
    #: of computing them, by a kernel of its own or where they are used; and of packing the weight
    #: for the direct sum.
    tile: float
    read: float
    transform: float
    transform_in_kernel: float
    pack: float
    #: Weights at the points from which they are many, or some, in shares of a last-level cache; the
    #: most tiles with which either are brought there by the kernel that uses them.
    many_weights: float
    some_weights: float
    max_tiles_kept: int
    max_tiles_anew: int
    #: Most bytes of inputs and products at the points, which three kernels pass through memory.
    max_bytes: int
    #: A larger last-level cache is shared with more cores: not measured.
    most_in_cache: int
    #: Of a weight's gradient: of a tile at all points; of taking a tile's channel there, where all
    #: of them stay in a last-level cache and where not; and of a weight's 36 products.
    gradient_tile: float
    gradient_near: float
    gradient_far: float
    gradient_weight: float
    #: Most bytes of inputs and gradients at the points.
    gradient_max_bytes: int


winograd_costs = tuned_values(WinogradCosts, "winograd.json")


def bytes_in_cache(device: DeviceInfo) -> int:
    """How much of what kernels pass through memory a last-level cache holds."""
    return min(device.caches.l3, winograd_costs(device).most_in_cache)
