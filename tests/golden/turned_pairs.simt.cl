#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pointwise_mul(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1, const int k2, const int k3)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < k0) {
        const int v0 = point / (k1);
        const int v1 = point % (k1);
        const int t0 = (int)(v1 % 2);
        const int t1 = (t0 < 1);
        const int t3 = (t0 >= 1);
        float m4 = 0.0f;
        if (t3) {
            const float t5 = arg0[k2 + (2*(v1 / 2)) - (k1*v0)];
            m4 = t5;
        }
        float m2 = m4;
        if (t1) {
            const float t6 = arg0[k3 + (2*(v1 / 2)) - (k1*v0)];
            const float t7 = (-t6);
            m2 = t7;
        }
        const float t8 = arg0[(k1*v0) + v1];
        const float t9 = (m2 * t8);
        arg1[(k1*v0) + v1] = t9;
    }
}
