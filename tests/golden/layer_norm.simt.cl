#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void reduction_native_layer_norm(__global const float *restrict arg0, __global const float *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0)
{
    __local float acc_arg4_local[64];
    __local float acc_arg5_local[64];
    const int row = get_group_id(0);
    const int lid = get_local_id(0);
    {
        const int v0 = row;
        float acc_arg4 = 0.0f;
        for (int swept = lid; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t0 = arg0[(k0*v0) + v1];
            acc_arg4 = (acc_arg4 + t0);
        }
        acc_arg4_local[lid] = acc_arg4;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int half_size = 32; half_size > 0; half_size /= 2) {
            if (lid < half_size) { acc_arg4 = (acc_arg4 + acc_arg4_local[lid + half_size]); acc_arg4_local[lid] = acc_arg4; }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        acc_arg4 = acc_arg4_local[0];
        const float r1 = acc_arg4;
        const float t2 = (r1 / 192.0f);
        float acc_arg5 = 0.0f;
        for (int swept = lid; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t3 = arg0[(k0*v0) + v1];
            const float t4 = (t3 - t2);
            const float t5 = (t4 * t4);
            acc_arg5 = (acc_arg5 + t5);
        }
        acc_arg5_local[lid] = acc_arg5;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int half_size = 32; half_size > 0; half_size /= 2) {
            if (lid < half_size) { acc_arg5 = (acc_arg5 + acc_arg5_local[lid + half_size]); acc_arg5_local[lid] = acc_arg5; }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        acc_arg5 = acc_arg5_local[0];
        const float r6 = acc_arg5;
        const float t7 = (r6 / 192.0f);
        const float t8 = (t7 + 1.0e-05f);
        const float t9 = rsqrt(t8);
        for (int swept = lid; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t10 = arg0[(k0*v0) + v1];
            const float t11 = (t10 - t2);
            const float t12 = (t11 * t9);
            const float t13 = arg1[v1];
            const float t14 = (t12 * t13);
            const float t15 = arg2[v1];
            const float t16 = (t14 + t15);
            arg3[(k0*v0) + v1] = t16;
        }
    }
}
