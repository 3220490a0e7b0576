#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pointwise_scatter_add(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < k0) {
        const int v0 = point;
        const float t0 = arg0[v0];
        arg1[v0] = t0;
    }
}

#pragma OPENCL FP_CONTRACT ON
/* The position if it is in [0, extent), else 0; then it is kept. */
static inline __attribute__((always_inline)) long ocl_bounded_index_long(long index, long extent, ulong *outside) {
  const ulong place = (ulong)index;
  *outside = place >= (ulong)extent ? place : *outside;
  return place >= (ulong)extent ? 0 : index;
}

/* Notes an index, unless another kernel or work-item has noted one in this call. */
static inline __attribute__((always_inline)) void ocl_report_index_long(long index, __global int *fault, int check) {
  if (atomic_cmpxchg((volatile __global int *)fault, 0, check) == 0) {
    fault[2] = (int)index;
    fault[3] = (int)(index >> 32);
  }
}

/* Reports the greatest of a kernel's positions if it is outside. */
static inline __attribute__((always_inline)) void ocl_report_outside_long(ulong outside, long extent, __global int *fault, int check) {
  if (outside >= (ulong)extent) ocl_report_index_long((long)outside, fault, check);
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void scatter_scatter_add(__global const long *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, __global int *restrict fault, const int k0, const int check0)
{
    const size_t item0 = get_global_id(0);
    ulong outside0 = 0;
    const int point = item0;
    if (point < k0) {
        const int v0 = point;
        for (int v1 = 0; v1 < 20; ++v1) {
            const float t0 = arg1[v0 + (k0*v1)];
            const long t1 = arg0[v0 + (k0*v1)];
            const int t2 = (int)ocl_bounded_index_long(t1, (10), &outside0);
            const int i3 = (k0*(int)(t2)) + v0;
            const float t4 = arg2[i3];
            arg2[i3] = (t4 + t0);
        }
    }
    ocl_report_outside_long(outside0, (10), fault, check0);
}
