#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduction_argmax(__global const float *restrict arg0, __global long *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * 16;
    const int last = min(first + 16, 16);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        float8 acc_arg1 = (float8)((-INFINITY));
        int8 acc_arg1_at = (int8)(INT_MAX);
        float acc_arg1_s = (-INFINITY);
        int acc_arg1_s_at = (int)(INT_MAX);
        for (int v1 = 0; v1 <= k0 - 8; v1 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + ((k0*v0) + v1)));
            const long8 t1 = (long8)((long)(v1)) + (long8)(0, 1, 2, 3, 4, 5, 6, 7);
            const int8 p2 = convert_int8(t1);
            {
                const int8 acc_arg1_better = (((t0 > acc_arg1) | ((t0 == acc_arg1) & convert_int8(p2 < acc_arg1_at))) & ~(acc_arg1 != acc_arg1)) | ((t0 != t0) & (~(acc_arg1 != acc_arg1) | convert_int8(p2 < acc_arg1_at)));
                acc_arg1 = select(acc_arg1, t0, acc_arg1_better);
                acc_arg1_at = select(acc_arg1_at, p2, convert_int8(acc_arg1_better));
            }
        }
        {  // overlaps the loop
            const int v1 = k0 - 8;
            const float8 t3 = (*(__global const float8u*)(arg0 + ((k0*v0) + v1)));
            const long8 t4 = (long8)((long)(v1)) + (long8)(0, 1, 2, 3, 4, 5, 6, 7);
            const int8 p5 = convert_int8(t4);
            {
                const int8 acc_arg1_better = (((t3 > acc_arg1) | ((t3 == acc_arg1) & convert_int8(p5 < acc_arg1_at))) & ~(acc_arg1 != acc_arg1)) | ((t3 != t3) & (~(acc_arg1 != acc_arg1) | convert_int8(p5 < acc_arg1_at)));
                acc_arg1 = select(acc_arg1, t3, acc_arg1_better);
                acc_arg1_at = select(acc_arg1_at, p5, convert_int8(acc_arg1_better));
            }
        }
        float acc_arg1_lane[8];
        vstore8(acc_arg1, 0, acc_arg1_lane);
        int acc_arg1_lane_at[8];
        vstore8(acc_arg1_at, 0, acc_arg1_lane_at);
        for (int l = 0; l < 8; ++l) {
            if ((((acc_arg1_lane[l] > acc_arg1_s) || (acc_arg1_lane[l] == acc_arg1_s && (acc_arg1_lane_at[l] < acc_arg1_s_at))) && !(acc_arg1_s != acc_arg1_s)) || ((acc_arg1_lane[l] != acc_arg1_lane[l]) && (!(acc_arg1_s != acc_arg1_s) || (acc_arg1_lane_at[l] < acc_arg1_s_at)))) {
                acc_arg1_s = acc_arg1_lane[l];
                acc_arg1_s_at = acc_arg1_lane_at[l];
            }
        }
        const long r6 = convert_long(acc_arg1_s_at);
        arg1[v0] = r6;
    }
}
