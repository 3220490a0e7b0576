#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void scan_cumsum(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int tile = item0;
    {
        for (int v0 = 0; v0 < 8; v0 += 8) {
            double8 acc_arg1 = (double8)(0.0);
            for (int v1 = 0; v1 < k0; ++v1) {
                const int i0 = (k0*v0) + v1;
                const float8 t1 = (float8)(arg0[i0], arg0[i0 + 300], arg0[i0 + 600], arg0[i0 + 900], arg0[i0 + 1200], arg0[i0 + 1500], arg0[i0 + 1800], arg0[i0 + 2100]);
                const double8 t2 = convert_double8(t1);
                acc_arg1 = (acc_arg1 + t2);
                const int i3 = (k0*v0) + v1;
                const float8 x4 = convert_float8(acc_arg1);
                arg1[i3] = x4.s0;
                arg1[i3 + 300] = x4.s1;
                arg1[i3 + 600] = x4.s2;
                arg1[i3 + 900] = x4.s3;
                arg1[i3 + 1200] = x4.s4;
                arg1[i3 + 1500] = x4.s5;
                arg1[i3 + 1800] = x4.s6;
                arg1[i3 + 2100] = x4.s7;
            }
        }
    }
}
