__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void dot(__global const float4 *restrict a, __global const float *restrict b, __global float *restrict c, const long step, const int n)
{
    const long at = (long)get_global_id(0) * step;
    float4 sum = 0;
    #pragma unroll 1
    for (int i = 0; i < n; ++i)
        sum = fma(a[at + i], (float4)(b[i * 64 + (int)get_local_id(0)]), sum);
    c[get_global_id(0)] = sum.s0 + sum.s1 + sum.s2 + sum.s3;
}
