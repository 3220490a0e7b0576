#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void reduction_softmax(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    __local float acc_arg2_local[64];
    __local float acc_arg3_local[64];
    const int point = get_group_id(0);
    const int down = get_local_id(0);
    {
        const int v0 = point;
        float acc_arg2 = (-INFINITY);
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t0 = arg0[(k0*v0) + v1];
            acc_arg2 = (((acc_arg2 > t0) | (acc_arg2 != acc_arg2)) ? acc_arg2 : t0);
        }
        acc_arg2_local[down] = acc_arg2;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (down < 8) {
            for (int k = 1; k < 8; ++k) {
                const float acc_arg2_other = acc_arg2_local[down + k * 8];
                acc_arg2 = (((acc_arg2 > acc_arg2_other) | (acc_arg2 != acc_arg2)) ? acc_arg2 : acc_arg2_other);
            }
            acc_arg2_local[down] = acc_arg2;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        acc_arg2 = acc_arg2_local[0];
        for (int k = 1; k < 8; ++k) {
            const float acc_arg2_other = acc_arg2_local[k];
            acc_arg2 = (((acc_arg2 > acc_arg2_other) | (acc_arg2 != acc_arg2)) ? acc_arg2 : acc_arg2_other);
        }
        const float r1 = acc_arg2;
        float acc_arg3 = 0.0f;
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t2 = arg0[(k0*v0) + v1];
            const float t3 = (t2 - r1);
            const float t4 = exp(t3);
            acc_arg3 = (acc_arg3 + t4);
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
        const float r5 = acc_arg3;
        const float t6 = (1.0f / r5);
        for (int swept = down; swept < k0; swept += 64) {
            const int v1 = swept;
            const float t7 = arg0[(k0*v0) + v1];
            const float t8 = (t7 - r1);
            const float t9 = exp(t8);
            const float t10 = (t9 * t6);
            arg1[(k0*v0) + v1] = t10;
        }
    }
}
