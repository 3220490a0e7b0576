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
void pointwise_mul(__global const float *restrict arg0, __global const long *restrict arg1, __global float *restrict arg2, __global int *restrict fault, const int k0, const int k1, const int check0)
{
    long outside0 = ocl_no_index_long();
    const int first = get_global_id(0);
    if (first < k0) {
        #pragma unroll
        for (int round = 0; round < 2; ++round) {
            const int point = first + round * k0;
            const int v0 = point / (k1);
            const int v1 = point % (k1);
            const long t0 = arg1[v0];
            const long t1 = ocl_checked_index_long(t0, 0, 100L, &outside0);
            const int t2 = ((int)(t1));
            const float t3 = arg0[(k1*(int)(t2)) + v1];
            const float t4 = (t3 * 2.0f);
            arg2[(k1*v0) + v1] = t4;
        }
    }
    ocl_report_index_long(outside0, fault, check0);
}
