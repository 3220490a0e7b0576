#pragma OPENCL FP_CONTRACT ON
typedef float4 float4u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void reduction_native_layer_norm(__global const float *restrict arg0, __global const float *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0, const int k1)
{
    __local float acc_arg4_s_local[64];
    __local float acc_arg5_s_local[64];
    const int point = get_group_id(0);
    const int down = get_local_id(0);
    {
        const int v0 = point;
        float4 acc_arg4 = (float4)(0.0f);
        float acc_arg4_s = 0.0f;
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept * 4;
            const float4 t0 = (*(__global const float4u*)(arg0 + ((k1*v0) + v1)));
            acc_arg4 = (acc_arg4 + t0);
        }
        const float2 acc_arg4_lane_2 = (acc_arg4.lo + acc_arg4.hi);
        const float acc_arg4_lane_1 = (acc_arg4_lane_2.lo + acc_arg4_lane_2.hi);
        acc_arg4_s = (acc_arg4_s + acc_arg4_lane_1);
        acc_arg4_s_local[down] = acc_arg4_s;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (down < 8) {
            for (int k = 1; k < 8; ++k) {
                const float acc_arg4_s_other = acc_arg4_s_local[down + k * 8];
                acc_arg4_s = (acc_arg4_s + acc_arg4_s_other);
            }
            acc_arg4_s_local[down] = acc_arg4_s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        acc_arg4_s = acc_arg4_s_local[0];
        for (int k = 1; k < 8; ++k) {
            const float acc_arg4_s_other = acc_arg4_s_local[k];
            acc_arg4_s = (acc_arg4_s + acc_arg4_s_other);
        }
        const float r1 = acc_arg4_s;
        const float t2 = (r1 / 192.0f);
        float4 acc_arg5 = (float4)(0.0f);
        float acc_arg5_s = 0.0f;
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept * 4;
            const float4 t3 = (*(__global const float4u*)(arg0 + ((k1*v0) + v1)));
            const float4 t4 = (t3 - (float4)(t2));
            acc_arg5 = (acc_arg5 + (t4 * t4));
        }
        const float2 acc_arg5_lane_2 = (acc_arg5.lo + acc_arg5.hi);
        const float acc_arg5_lane_1 = (acc_arg5_lane_2.lo + acc_arg5_lane_2.hi);
        acc_arg5_s = (acc_arg5_s + acc_arg5_lane_1);
        acc_arg5_s_local[down] = acc_arg5_s;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (down < 8) {
            for (int k = 1; k < 8; ++k) {
                const float acc_arg5_s_other = acc_arg5_s_local[down + k * 8];
                acc_arg5_s = (acc_arg5_s + acc_arg5_s_other);
            }
            acc_arg5_s_local[down] = acc_arg5_s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        acc_arg5_s = acc_arg5_s_local[0];
        for (int k = 1; k < 8; ++k) {
            const float acc_arg5_s_other = acc_arg5_s_local[k];
            acc_arg5_s = (acc_arg5_s + acc_arg5_s_other);
        }
        const float r5 = acc_arg5_s;
        const float t6 = (r5 / 192.0f);
        const float t7 = (t6 + 1.0e-05f);
        const float t8 = rsqrt(t7);
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept * 4;
            const float4 t9 = (*(__global const float4u*)(arg0 + ((k1*v0) + v1)));
            const float4 t10 = (t9 - (float4)(t2));
            const float4 t11 = (t10 * (float4)(t8));
            const float4 t12 = (*(__global const float4u*)(arg1 + (v1)));
            const float4 t13 = (t11 * t12);
            const float4 t14 = (*(__global const float4u*)(arg2 + (v1)));
            const float4 t15 = (t13 + t14);
            *(__global float4u*)(arg3 + ((k1*v0) + v1)) = t15;
        }
    }
}
