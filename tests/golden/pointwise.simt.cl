#pragma OPENCL FP_CONTRACT ON

__kernel 
void pointwise_sigmoid(__global const float *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0)
{
    const int point = get_global_id(0);
    if (point < k0) {
        const int v0 = point;
        const float t0 = arg0[v0];
        const float t1 = arg1[v0];
        const float t2 = (t0 * t1);
        const float t3 = (t2 + 1.0f);
        const float t4 = (1.0f / (1.0f + exp(-t3)));
        arg2[v0] = t4;
    }
}
