#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pointwise_scatter_add(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const int point = get_global_id(0);
    if (point < k0) {
        const int v0 = point;
        const float t0 = arg0[v0];
        arg1[v0] = t0;
    }
}

#pragma OPENCL FP_CONTRACT ON
/* Stands for no index: a number that no conversion gives. */
static inline __attribute__((always_inline)) long ocl_no_index_long() { return (long)(LONG_MAX - 1); }
/* The index if it is in [-below, extent), else 0; then it is kept as the one outside. */
static inline __attribute__((always_inline)) long ocl_checked_index_long(long index, long below, long extent, long *outside) {
  const int out = (ulong)index + (ulong)below >= (ulong)(below + extent);
  *outside = out ? index : *outside;
  return out ? (long)(0) : index;
}
/* Notes an index that was kept, unless another kernel or work-item has noted one in this call. */
static inline __attribute__((always_inline)) void ocl_report_index_long(long outside, __global int *fault, int check) {
  if (outside != ocl_no_index_long() && atomic_cmpxchg((volatile __global int *)fault, 0, check) == 0) {
    fault[2] = (int)outside;
    fault[3] = (int)((long)outside >> 32);
  }
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void scatter_scatter_add(__global const long *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, __global int *restrict fault, const int k0, const int check0)
{
    long outside0 = ocl_no_index_long();
    const int point = get_global_id(0);
    if (point < k0) {
        const int v0 = point;
        for (int v1 = 0; v1 < 20; ++v1) {
            const float t0 = arg1[v0 + (k0*v1)];
            const long t1 = arg0[v0 + (k0*v1)];
            const long t2 = ocl_checked_index_long(t1, 0, 10L, &outside0);
            const int t3 = ((int)(t2));
            const int i4 = (k0*(int)(t3)) + v0;
            const float t5 = arg2[i4];
            arg2[i4] = (t5 + t0);
        }
    }
    ocl_report_index_long(outside0, fault, check0);
}
