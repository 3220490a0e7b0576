#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduction_softmax(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    const int first = (int)get_global_id(0) * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        float kept0[197];
        float8 acc_arg2 = (float8)((-INFINITY));
        float acc_arg2_s = (-INFINITY);
        for (int v1 = 0; v1 <= k1 - 8; v1 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
            acc_arg2 = (((acc_arg2 > t0) | (acc_arg2 != acc_arg2)) ? acc_arg2 : t0);
        }
        {
            const int v1 = k1 - 8;  // overlaps the loop
            const float8 t1 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
            acc_arg2 = (((acc_arg2 > t1) | (acc_arg2 != acc_arg2)) ? acc_arg2 : t1);
        }
        const float4 acc_arg2_lane_4 = (((acc_arg2.lo > acc_arg2.hi) | (acc_arg2.lo != acc_arg2.lo)) ? acc_arg2.lo : acc_arg2.hi);
        const float2 acc_arg2_lane_2 = (((acc_arg2_lane_4.lo > acc_arg2_lane_4.hi) | (acc_arg2_lane_4.lo != acc_arg2_lane_4.lo)) ? acc_arg2_lane_4.lo : acc_arg2_lane_4.hi);
        const float acc_arg2_lane_1 = (((acc_arg2_lane_2.lo > acc_arg2_lane_2.hi) | (acc_arg2_lane_2.lo != acc_arg2_lane_2.lo)) ? acc_arg2_lane_2.lo : acc_arg2_lane_2.hi);
        acc_arg2_s = (((acc_arg2_s > acc_arg2_lane_1) | (acc_arg2_s != acc_arg2_s)) ? acc_arg2_s : acc_arg2_lane_1);
        const float r2 = acc_arg2_s;
        float8 acc_arg3 = (float8)(0.0f);
        float acc_arg3_s = 0.0f;
        for (int v1 = 0; v1 <= k1 - 8; v1 += 8) {
            const float8 t3 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
            const float8 t4 = (t3 - (float8)(r2));
            const float8 t5 = exp(t4);
            *(__private float8u*)(kept0 + (v1)) = t5;
            acc_arg3 = (acc_arg3 + t5);
        }
        {
            const int v1 = k1 - 8;  // overlaps the loop
            const float8 t6 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
            const float8 t7 = (t6 - (float8)(r2));
            const float8 t8 = exp(t7);
            *(__private float8u*)(kept0 + (v1)) = t8;
            acc_arg3 = (acc_arg3 + ((int8)(0, 0, 0, -1, -1, -1, -1, -1) ? t8 : (float8)(0.0f)));
        }
        const float4 acc_arg3_lane_4 = (acc_arg3.lo + acc_arg3.hi);
        const float2 acc_arg3_lane_2 = (acc_arg3_lane_4.lo + acc_arg3_lane_4.hi);
        const float acc_arg3_lane_1 = (acc_arg3_lane_2.lo + acc_arg3_lane_2.hi);
        acc_arg3_s = (acc_arg3_s + acc_arg3_lane_1);
        const float r9 = acc_arg3_s;
        for (int v1 = 0; v1 <= k1 - 8; v1 += 8) {
            const float8 t10 = (*(__private const float8u*)(kept0 + (v1)));
            const float8 t11 = (t10 / (float8)(r9));
            *(__global float8u*)(arg1 + ((k1*v0) + v1)) = t11;
        }
        {
            const int v1 = k1 - 8;  // overlaps the loop
            const float8 t12 = (*(__private const float8u*)(kept0 + (v1)));
            const float8 t13 = (t12 / (float8)(r9));
            *(__global float8u*)(arg1 + ((k1*v0) + v1)) = t13;
        }
    }
}
