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

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void scatter_scatter_add(__global const long *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0)
{
    const int first = (int)get_global_id(0) * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        for (int v1 = 0; v1 < 20; ++v1) {
            const float t0 = arg1[v0 + (k0*v1)];
            const long t1 = arg0[v0 + (k0*v1)];
            const int t2 = ((int)(t1));
            const int t3 = (t2 < 9 ? t2 : 9);
            const int t4 = (t3 > 0 ? t3 : 0);
            const int i5 = (k0*(int)(t4)) + v0;
            const float t6 = arg2[i5];
            arg2[i5] = (t6 + t0);
        }
    }
}
