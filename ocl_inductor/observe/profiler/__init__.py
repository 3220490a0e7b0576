"""``ocl_inductor.profile()``: where the time of compiled graphs goes on the device."""

from ocl_inductor.observe.profiler.profile import Profile
from ocl_inductor.observe.profiler.result import Breakdown, HostTime, KernelTime
from ocl_inductor.observe.profiler.session import profile

__all__ = ["Breakdown", "HostTime", "KernelTime", "Profile", "profile"]
