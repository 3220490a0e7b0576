#pragma OPENCL FP_CONTRACT ON
/* The index if it is in [0, extent), else 0. The first that is not, of all kernels, is noted in `fault`. */
static inline __attribute__((always_inline)) long ocl_checked_index_long(long index, long extent, __global int *fault, int check) {
  if ((ulong)index < (ulong)extent) return index;
  if (atomic_cmpxchg((volatile __global int *)fault, 0, check) == 0) {
    fault[2] = (int)index;
    fault[3] = (int)((long)index >> 32);
  }
  return 0;
}

__kernel 
void pointwise_mul(__global const float *restrict arg0, __global const long *restrict arg1, __global float *restrict arg2, __global int *restrict fault, const int k0, const int k1, const int check0)
{
    const int point = get_global_id(0);
    if (point < k0) {
        const int v0 = point / (k1);
        const int v1 = (point) % (k1);
        const long t0 = arg1[v0];
        const long t1 = ocl_checked_index_long(t0, 100L, fault, check0);
        const int t2 = ((int)(t1));
        const float t3 = arg0[(k1*(int)(t2)) + v1];
        const float t4 = (t3 * 2.0f);
        arg2[(k1*v0) + v1] = t4;
    }
}
