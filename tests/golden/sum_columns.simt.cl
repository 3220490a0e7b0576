#pragma OPENCL FP_CONTRACT ON
typedef float4 float4u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1024, 1, 1)))
void reduction_sum(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    __local float4 acc_arg1_local[1024];
    const int lid = get_local_id(0);
    const int across = lid % 16;
    const int down = lid / 16;
    const int point = min((int)get_group_id(0) * 16 + across, (int)(12) - 1);
    {
        const int v0 = point * 4;
        float4 acc_arg1 = (float4)(0.0f);
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept;
            const float4 t0 = (*(__global const float4u*)(arg0 + (v0 + (k1*v1))));
            acc_arg1 = (acc_arg1 + t0);
        }
        acc_arg1_local[lid] = acc_arg1;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (down < 8) {
            for (int k = 1; k < 8; ++k) {
                const float4 acc_arg1_other = acc_arg1_local[lid + k * 128];
                acc_arg1 = (acc_arg1 + acc_arg1_other);
            }
            acc_arg1_local[lid] = acc_arg1;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        acc_arg1 = acc_arg1_local[across];
        for (int k = 1; k < 8; ++k) {
            const float4 acc_arg1_other = acc_arg1_local[across + k * 16];
            acc_arg1 = (acc_arg1 + acc_arg1_other);
        }
        const float4 r1 = acc_arg1;
        if (down == 0) {
            *(__global float4u*)(arg1 + (v0)) = r1;
        }
    }
}
