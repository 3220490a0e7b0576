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
void pointwise_mul(__global const float *restrict arg0, __global const long *restrict arg1, __global float *restrict arg2, __global int *restrict fault, const int k0, const int k1, const int k2, const int check0)
{
    const size_t item0 = get_global_id(0);
    ulong outside0 = 0;
    const int first = item0;
    if (first < k0) {
        #pragma unroll
        for (int round = 0; round < 2; ++round) {
            const int point = first + round * k0;
            const int v0 = point / (k1);
            const int v1 = point % (k1);
            const long t0 = arg1[v0];
            const int t1 = (int)ocl_bounded_index_long(t0, (k2), &outside0);
            const float t2 = arg0[(k1*(int)(t1)) + v1];
            const float t3 = (t2 * 2.0f);
            arg2[(k1*v0) + v1] = t3;
        }
    }
    ocl_report_outside_long(outside0, (k2), fault, check0);
}
