#pragma OPENCL FP_CONTRACT ON
/* Amounts outside [0, bits) shift everything out: the sign remains. */
static inline __attribute__((always_inline)) uchar ocl_right_shift_uchar(uchar a, uchar b) {
  char inside = (b >= (uchar)(0)) & (b < (uchar)(8));
  return inside ? (uchar)(a >> (b & (uchar)(7))) : (uchar)(0);
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void reduction_mm(__global const float *restrict arg0, __global const uchar *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0, const int k1)
{
    __local float acc_arg3_local[64];
    const int point = get_group_id(0);
    const int down = get_local_id(0);
    {
        const int v0 = point;
        float acc_arg3 = 0.0f;
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t0 = arg0[v1];
            const int t1 = (int)((v1 % 32) % 2);
            const int t2 = (t1 < 1);
            const int t4 = (t1 >= 1);
            uchar m5 = ((uchar)0);
            if (t4) {
                const uchar t6 = arg1[(k1*v0) + (16*(v1 / 32)) + ((v1 % 32) / 2)];
                const uchar t7 = ocl_right_shift_uchar(t6, ((uchar)4));
                m5 = t7;
            }
            uchar m3 = m5;
            if (t2) {
                const uchar t8 = arg1[(k1*v0) + (16*(v1 / 32)) + ((v1 % 32) / 2)];
                const uchar t9 = ((uchar)(t8 & ((uchar)15)));
                m3 = t9;
            }
            const float t10 = ((float)(m3));
            const float t11 = arg2[(8*v0) + (v1 / 32)];
            const float t12 = (t10 * t11);
            acc_arg3 = (acc_arg3 + (t0 * t12));
        }
        acc_arg3_local[down] = acc_arg3;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (down < 8) {
            for (int k = 1; k < 8; ++k) {
                const float acc_arg3_other = acc_arg3_local[down + k * 8];
                acc_arg3 = (acc_arg3 + acc_arg3_other);
            }
            acc_arg3_local[down] = acc_arg3;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        acc_arg3 = acc_arg3_local[0];
        for (int k = 1; k < 8; ++k) {
            const float acc_arg3_other = acc_arg3_local[k];
            acc_arg3 = (acc_arg3 + acc_arg3_other);
        }
        const float r13 = acc_arg3;
        if (down == 0) {
            arg3[v0] = r13;
        }
    }
}
