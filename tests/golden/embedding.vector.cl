#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));
/* The index if it is in [0, extent), else 0. The first that is not, of all kernels, is noted in `fault`. */
static inline __attribute__((always_inline)) long ocl_checked_index_long(long index, long extent, __global int *fault, int check) {
  if ((ulong)index < (ulong)extent) return index;
  if (atomic_cmpxchg((volatile __global int *)fault, 0, check) == 0) {
    fault[2] = (int)index;
    fault[3] = (int)((long)index >> 32);
  }
  return 0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_mul(__global const float *restrict arg0, __global const long *restrict arg1, __global float *restrict arg2, __global int *restrict fault, const int k0, const int check0)
{
    const int first = (int)get_global_id(0) * 28;
    const int last = min(first + 28, 28);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        const long t0 = arg1[v0];
        const long t1 = ocl_checked_index_long(t0, 100L, fault, check0);
        const int t2 = ((int)(t1));
        for (int v1 = 0; v1 < k0; v1 += 8) {
            const float8 t3 = (*(__global const float8u*)(arg0 + ((k0*(int)(t2)) + v1)));
            const float8 t4 = (t3 * (float8)(2.0f));
            *(__global float8u*)(arg2 + ((k0*v0) + v1)) = t4;
        }
    }
}
