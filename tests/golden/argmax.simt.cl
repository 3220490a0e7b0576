#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void reduction_argmax(__global const float *restrict arg0, __global long *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < 16) {
        const int v0 = point;
        float acc_arg1 = (-INFINITY);
        int acc_arg1_at = (int)(INT_MAX);
        for (int v1 = 0; v1 < k0; ++v1) {
            const float t0 = arg0[(k0*v0) + v1];
            const long t1 = (long)(v1);
            const int p2 = convert_int(t1);
            if ((((t0 > acc_arg1) || (t0 == acc_arg1 && (p2 < acc_arg1_at))) && !(acc_arg1 != acc_arg1)) || ((t0 != t0) && (!(acc_arg1 != acc_arg1) || (p2 < acc_arg1_at)))) {
                acc_arg1 = t0;
                acc_arg1_at = p2;
            }
        }
        const long r3 = convert_long(acc_arg1_at);
        arg1[v0] = r3;
    }
}
