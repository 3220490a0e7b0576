#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_sigmoid(__global const float *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int tile = item0;
    {
        for (int v0 = 0; v0 < k0; v0 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + (v0)));
            const float8 t1 = (*(__global const float8u*)(arg1 + (v0)));
            const float8 t2 = (t0 * t1);
            const float8 t3 = (t2 + (float8)(1.0f));
            const float8 t4 = ((float8)(1.0f) / ((float8)(1.0f) + exp(-t3)));
            *(__global float8u*)(arg2 + (v0)) = t4;
        }
    }
}
