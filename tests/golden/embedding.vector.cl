#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_mul(__global const float *restrict arg0, __global const long *restrict arg1, __global float *restrict arg2, const int k0)
{
    const int first = (int)get_global_id(0) * 28;
    const int last = min(first + 28, 28);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        const long t0 = arg1[v0];
        const int t1 = ((int)(t0));
        const int t2 = (t1 < 99 ? t1 : 99);
        const int t3 = (t2 > 0 ? t2 : 0);
        for (int v1 = 0; v1 < k0; v1 += 8) {
            const float8 t4 = (*(__global const float8u*)(arg0 + ((k0*(int)(t3)) + v1)));
            const float8 t5 = (t4 * (float8)(2.0f));
            *(__global float8u*)(arg2 + ((k0*v0) + v1)) = t5;
        }
    }
}
