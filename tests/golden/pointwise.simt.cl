#pragma OPENCL FP_CONTRACT ON
typedef float4 float4u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void pointwise_sigmoid(__global const float *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < k0) {
        const int v0 = point * 4;
        const float4 t0 = (*(__global const float4u*)(arg0 + (v0)));
        const float4 t1 = (*(__global const float4u*)(arg1 + (v0)));
        const float4 t2 = (t0 * t1);
        const float4 t3 = (t2 + (float4)(1.0f));
        const float4 t4 = ((float4)(1.0f) / ((float4)(1.0f) + exp(-t3)));
        *(__global float4u*)(arg2 + (v0)) = t4;
    }
}
