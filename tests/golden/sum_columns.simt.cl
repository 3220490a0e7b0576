#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void reduction_sum(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    __local float acc_arg1_local[64];
    const int row = get_group_id(0);
    const int lid = get_local_id(0);
    {
        const int v0 = row;
        float acc_arg1 = 0.0f;
        for (int swept = lid; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t0 = arg0[v0 + (k1*v1)];
            acc_arg1 = (acc_arg1 + t0);
        }
        acc_arg1_local[lid] = acc_arg1;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int half_size = 32; half_size > 0; half_size /= 2) {
            if (lid < half_size) { acc_arg1 = (acc_arg1 + acc_arg1_local[lid + half_size]); acc_arg1_local[lid] = acc_arg1; }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        acc_arg1 = acc_arg1_local[0];
        const float r1 = acc_arg1;
        arg1[v0] = r1;
    }
}
