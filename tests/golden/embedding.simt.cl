#pragma OPENCL FP_CONTRACT ON

__kernel 
void pointwise_mul(__global const float *restrict arg0, __global const long *restrict arg1, __global float *restrict arg2, const int k0, const int k1)
{
    const int point = get_global_id(0);
    if (point < k0) {
        const int v0 = point / (k1);
        const int v1 = (point) % (k1);
        const long t0 = arg1[v0];
        const int t1 = ((int)(t0));
        const int t2 = (t1 < 99 ? t1 : 99);
        const int t3 = (t2 > 0 ? t2 : 0);
        const float t4 = arg0[(k1*(int)(t3)) + v1];
        const float t5 = (t4 * 2.0f);
        arg2[(k1*v0) + v1] = t5;
    }
}
