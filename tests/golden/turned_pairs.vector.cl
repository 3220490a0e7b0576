#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_mul(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * 6;
    const int last = min(first + 6, 6);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        for (int v1 = 0; v1 < k0; v1 += 8) {
            const int8 t0 = (int8)(0, 1, 0, 1, 0, 1, 0, 1);
            const int8 t1 = (t0 < (int8)(1));
            const float8 t2 = ((*(__global const float8u*)(arg0 + (k1 + (2*(v1 / 2)) - (k0*v0))))).s11335577;
            const float8 t3 = (-t2);
            const float8 t4 = ((*(__global const float8u*)(arg0 + (k1 + (2*(v1 / 2)) - (k0*v0))))).s00224466;
            const float8 t5 = (t1 ? t3 : t4);
            const float8 t6 = (*(__global const float8u*)(arg0 + ((k0*v0) + v1)));
            const float8 t7 = (t5 * t6);
            *(__global float8u*)(arg1 + ((k0*v0) + v1)) = t7;
        }
    }
}
