#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_scatter_add(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const int tile = get_global_id(0);
    {
        for (int v0 = 0; v0 < k0; v0 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + (v0)));
            *(__global float8u*)(arg1 + (v0)) = t0;
        }
    }
}

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

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void scatter_scatter_add(__global const long *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, __global int *restrict fault, const int k0, const int check0)
{
    const int first = (int)get_global_id(0) * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        for (int v1 = 0; v1 < 20; ++v1) {
            const float t0 = arg1[v0 + (k0*v1)];
            const long t1 = arg0[v0 + (k0*v1)];
            const long t2 = ocl_checked_index_long(t1, 10L, fault, check0);
            const int t3 = ((int)(t2));
            const int i4 = (k0*(int)(t3)) + v0;
            const float t5 = arg2[i4];
            arg2[i4] = (t5 + t0);
        }
    }
}
