#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));
/* e^x for x <= 0, 1 ulp, subnormal results included. x = n ln 2 + r; adding 12583103 leaves n and a bias of
   191 in the last bits, so that even 2^-149 is made from a normal number. */
static inline __attribute__((always_inline)) float8 ocl_exp_negative_float8(float8 x) {
  float8 y = x < (float8)(-104.0f) ? (float8)(-104.0f) : x;
  float8 m = y * 1.44269504f + 12583103.0f;
  float8 n = m - 12583103.0f;
  float8 r = y - n * 0x1.62e4p-1f;
  r = r - n * 0x1.7f7d1cp-20f;
  float8 p = ((((((1.381459879e-03f * r + 8.368716575e-03f) * r + 4.166838899e-02f) * r + 1.666652113e-01f) * r + 4.999999404e-01f) * r + 1.0f) * r + 1.0f);
  return p * as_float8(as_int8(m) << 23) * 0x1p-64f;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduction_softmax(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        float kept0[197];
        float8 acc_arg2 = (float8)((-INFINITY));
        float acc_arg2_s = (-INFINITY);
        float8 acc_arg2_way1 = (float8)((-INFINITY));
        float8 acc_arg2_way2 = (float8)((-INFINITY));
        float8 acc_arg2_way3 = (float8)((-INFINITY));
        for (int v1_run = 0; v1_run <= k1 - 32; v1_run += 32) {
            {
                const int v1 = v1_run + 0;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg2 = (((acc_arg2 > t0) | (acc_arg2 != acc_arg2)) ? acc_arg2 : t0);
            }
            {
                const int v1 = v1_run + 8;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg2_way1 = (((acc_arg2_way1 > t0) | (acc_arg2_way1 != acc_arg2_way1)) ? acc_arg2_way1 : t0);
            }
            {
                const int v1 = v1_run + 16;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg2_way2 = (((acc_arg2_way2 > t0) | (acc_arg2_way2 != acc_arg2_way2)) ? acc_arg2_way2 : t0);
            }
            {
                const int v1 = v1_run + 24;
                const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
                acc_arg2_way3 = (((acc_arg2_way3 > t0) | (acc_arg2_way3 != acc_arg2_way3)) ? acc_arg2_way3 : t0);
            }
        }
        acc_arg2 = (((acc_arg2 > acc_arg2_way1) | (acc_arg2 != acc_arg2)) ? acc_arg2 : acc_arg2_way1);
        acc_arg2 = (((acc_arg2 > acc_arg2_way2) | (acc_arg2 != acc_arg2)) ? acc_arg2 : acc_arg2_way2);
        acc_arg2 = (((acc_arg2 > acc_arg2_way3) | (acc_arg2 != acc_arg2)) ? acc_arg2 : acc_arg2_way3);
        for (int v1 = (k1) / 32 * 32; v1 <= k1 - 8; v1 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
            acc_arg2 = (((acc_arg2 > t0) | (acc_arg2 != acc_arg2)) ? acc_arg2 : t0);
        }
        {  // overlaps the loop
            const int v1 = k1 - 8;
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
            const float8 t5 = ocl_exp_negative_float8(t4);
            *(__private float8u*)(kept0 + (v1)) = t5;
            acc_arg3 = (acc_arg3 + t5);
        }
        {  // overlaps the loop
            const int v1 = k1 - 8;
            const float8 t6 = (*(__global const float8u*)(arg0 + ((k1*v0) + v1)));
            const float8 t7 = (t6 - (float8)(r2));
            const float8 t8 = ocl_exp_negative_float8(t7);
            *(__private float8u*)(kept0 + (v1)) = t8;
            acc_arg3 = (acc_arg3 + ((int8)(0, 0, 0, -1, -1, -1, -1, -1) ? t8 : (float8)(0.0f)));
        }
        const float4 acc_arg3_lane_4 = (acc_arg3.lo + acc_arg3.hi);
        const float2 acc_arg3_lane_2 = (acc_arg3_lane_4.lo + acc_arg3_lane_4.hi);
        const float acc_arg3_lane_1 = (acc_arg3_lane_2.lo + acc_arg3_lane_2.hi);
        acc_arg3_s = (acc_arg3_s + acc_arg3_lane_1);
        const float r9 = acc_arg3_s;
        const float t10 = (1.0f / r9);
        for (int v1 = 0; v1 <= k1 - 8; v1 += 8) {
            const float8 t11 = (*(__private const float8u*)(kept0 + (v1)));
            const float8 t12 = (t11 * (float8)(t10));
            *(__global float8u*)(arg1 + ((k1*v0) + v1)) = t12;
        }
        {  // overlaps the loop
            const int v1 = k1 - 8;
            const float8 t13 = (*(__private const float8u*)(kept0 + (v1)));
            const float8 t14 = (t13 * (float8)(t10));
            *(__global float8u*)(arg1 + ((k1*v0) + v1)) = t14;
        }
    }
}
