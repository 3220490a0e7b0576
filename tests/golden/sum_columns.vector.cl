#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduction_sum(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * 6;
    const int last = min(first + 6, 6);
    for (int tile = first; tile < last; ++tile) {
        const int row = tile / (6);
        const int begin = (tile % (6)) * 8;
        const int end = min(begin + 8, (int)(k0));
        for (int v0 = begin; v0 < end; v0 += 8) {
            float8 acc_arg1 = (float8)(0.0f);
            for (int v1_first = 0; v1_first < k1; v1_first += 16) {
                const int v1_last = min(v1_first + 16, (int)(k1));
                float8 acc_arg1_part = (float8)(0.0f);
                for (int v1 = v1_first; v1 < v1_last; ++v1) {
                    const float8 t0 = (*(__global const float8u*)(arg0 + (v0 + (k0*v1))));
                    acc_arg1_part = (acc_arg1_part + t0);
                }
                acc_arg1 = (acc_arg1 + acc_arg1_part);
            }
            const float8 r1 = acc_arg1;
            *(__global float8u*)(arg1 + (v0)) = r1;
        }
    }
}
