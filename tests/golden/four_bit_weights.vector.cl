#pragma OPENCL FP_CONTRACT ON
typedef uchar4 uchar4u __attribute__((aligned(1)));
typedef float8 float8u __attribute__((aligned(4)));
/* Amounts outside [0, bits) shift everything out: the sign remains. */
static inline __attribute__((always_inline)) uchar8 ocl_right_shift_uchar8(uchar8 a, uchar8 b) {
  char8 inside = (b >= (uchar8)(0)) & (b < (uchar8)(8));
  return inside ? (uchar8)(a >> (b & (uchar8)(7))) : (uchar8)(0);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduction_mm(__global const float *restrict arg0, __global const uchar *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0, const int k1, const int k2)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        float8 acc_arg3 = (float8)(0.0f);
        float acc_arg3_s = 0.0f;
        for (int v1 = 0; v1 < k1; v1 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + (v1)));
            const int8 t1 = (int8)(0, 1, 0, 1, 0, 1, 0, 1);
            const int8 t2 = (t1 < (int8)(1));
            const uchar8 t3 = ((*(__global const uchar4u*)(arg1 + ((k2*v0) + (16*(v1 / 32)) + ((v1 % 32) / 2))))).s00112233;
            const uchar8 t4 = (t3 & (uchar8)(((uchar)15)));
            const uchar8 t5 = ocl_right_shift_uchar8(t3, (uchar8)(((uchar)4)));
            const uchar8 t6 = (convert_char8(t2) ? t4 : t5);
            const float8 t7 = convert_float8(t6);
            const float t8 = arg2[(8*v0) + (v1 / 32)];
            const float8 t9 = (t7 * (float8)(t8));
            acc_arg3 = (acc_arg3 + (t0 * t9));
        }
        const float4 acc_arg3_lane_4 = (acc_arg3.lo + acc_arg3.hi);
        const float2 acc_arg3_lane_2 = (acc_arg3_lane_4.lo + acc_arg3_lane_4.hi);
        const float acc_arg3_lane_1 = (acc_arg3_lane_2.lo + acc_arg3_lane_2.hi);
        acc_arg3_s = (acc_arg3_s + acc_arg3_lane_1);
        const float r10 = acc_arg3_s;
        arg3[v0] = r10;
    }
}
