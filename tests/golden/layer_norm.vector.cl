#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduction_native_layer_norm(__global const float *restrict arg0, __global const float *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0, const int k1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        float8 acc_arg4 = (float8)(0.0f);
        float acc_arg4_s = 0.0f;
        float8 acc_arg4_way1 = (float8)(0.0f);
        float8 acc_arg4_way2 = (float8)(0.0f);
        float8 acc_arg4_way3 = (float8)(0.0f);
        for (int v1_run = 0; v1_run <= k1 - 32; v1_run += 32) {
            {
                const int v1 = v1_run + 0;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg4 = (acc_arg4 + t0);
            }
            {
                const int v1 = v1_run + 8;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg4_way1 = (acc_arg4_way1 + t0);
            }
            {
                const int v1 = v1_run + 16;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg4_way2 = (acc_arg4_way2 + t0);
            }
            {
                const int v1 = v1_run + 24;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg4_way3 = (acc_arg4_way3 + t0);
            }
        }
        acc_arg4 = (acc_arg4 + acc_arg4_way1);
        acc_arg4 = (acc_arg4 + acc_arg4_way2);
        acc_arg4 = (acc_arg4 + acc_arg4_way3);
        const float4 acc_arg4_lane_4 = (acc_arg4.lo + acc_arg4.hi);
        const float2 acc_arg4_lane_2 = (acc_arg4_lane_4.lo + acc_arg4_lane_4.hi);
        const float acc_arg4_lane_1 = (acc_arg4_lane_2.lo + acc_arg4_lane_2.hi);
        acc_arg4_s = (acc_arg4_s + acc_arg4_lane_1);
        const float r1 = acc_arg4_s;
        const float t2 = (r1 / 192.0f);
        float8 acc_arg5 = (float8)(0.0f);
        float acc_arg5_s = 0.0f;
        float8 acc_arg5_way1 = (float8)(0.0f);
        float8 acc_arg5_way2 = (float8)(0.0f);
        float8 acc_arg5_way3 = (float8)(0.0f);
        for (int v1_run = 0; v1_run <= k1 - 32; v1_run += 32) {
            {
                const int v1 = v1_run + 0;
                const float8 t3 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                const float8 t4 = (t3 - (float8)(t2));
                acc_arg5 = (acc_arg5 + (t4 * t4));
            }
            {
                const int v1 = v1_run + 8;
                const float8 t3 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                const float8 t4 = (t3 - (float8)(t2));
                acc_arg5_way1 = (acc_arg5_way1 + (t4 * t4));
            }
            {
                const int v1 = v1_run + 16;
                const float8 t3 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                const float8 t4 = (t3 - (float8)(t2));
                acc_arg5_way2 = (acc_arg5_way2 + (t4 * t4));
            }
            {
                const int v1 = v1_run + 24;
                const float8 t3 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                const float8 t4 = (t3 - (float8)(t2));
                acc_arg5_way3 = (acc_arg5_way3 + (t4 * t4));
            }
        }
        acc_arg5 = (acc_arg5 + acc_arg5_way1);
        acc_arg5 = (acc_arg5 + acc_arg5_way2);
        acc_arg5 = (acc_arg5 + acc_arg5_way3);
        const float4 acc_arg5_lane_4 = (acc_arg5.lo + acc_arg5.hi);
        const float2 acc_arg5_lane_2 = (acc_arg5_lane_4.lo + acc_arg5_lane_4.hi);
        const float acc_arg5_lane_1 = (acc_arg5_lane_2.lo + acc_arg5_lane_2.hi);
        acc_arg5_s = (acc_arg5_s + acc_arg5_lane_1);
        const float r5 = acc_arg5_s;
        const float t6 = (r5 / 192.0f);
        const float t7 = (t6 + 1.0e-05f);
        const float t8 = rsqrt(t7);
        for (int v1 = 0; v1 < k1; v1 += 8) {
            const float8 t9 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
            const float8 t10 = (t9 - (float8)(t2));
            const float8 t11 = (t10 * (float8)(t8));
            const float8 t12 = (*(__global const float8u*)(arg1 + (v1)));
            const float8 t13 = (t11 * t12);
            const float8 t14 = (*(__global const float8u*)(arg2 + (v1)));
            const float8 t15 = (t13 + t14);
            *(__global float8u*)(arg3 + ((k1*v0) + v1)) = t15;
        }
    }
}
