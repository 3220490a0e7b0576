#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pointwise_max_pool2d_with_indices(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1, const int k2)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < k0) {
        const int q0 = point / (6);
        const int v2 = point % (6);
        const int v0 = q0 / (6);
        const int v1 = q0 % (6);
        const int t1 = (int)((2*v1) - 1);
        const int t2 = (t1 >= 0);
        const int t3 = (int)((2*v2) - 1);
        const int t4 = (t3 >= 0);
        const int t5 = (t2 & t4);
        float m6 = (-INFINITY);
        if (t5) {
            const float t7 = arg0[(k1*v0) + (24*v1) + (2*v2) - 13];
            m6 = t7;
        }
        const float t8 = ((((-INFINITY) > m6) | ((-INFINITY) != (-INFINITY))) ? (-INFINITY) : m6);
        float m9 = (-INFINITY);
        if (t2) {
            const float t10 = arg0[(k1*v0) + (24*v1) + (2*v2) - 12];
            m9 = t10;
        }
        const float t11 = (((t8 > m9) | (t8 != t8)) ? t8 : m9);
        float m12 = (-INFINITY);
        if (t2) {
            const float t13 = arg0[(k1*v0) + (24*v1) + (2*v2) - 11];
            m12 = t13;
        }
        const float t14 = (((t11 > m12) | (t11 != t11)) ? t11 : m12);
        float m15 = (-INFINITY);
        if (t4) {
            const float t16 = arg0[(k1*v0) + (24*v1) + (2*v2) - 1];
            m15 = t16;
        }
        const float t17 = (((t14 > m15) | (t14 != t14)) ? t14 : m15);
        const float t18 = arg0[(k1*v0) + (24*v1) + (2*v2)];
        const float t19 = (((t17 > t18) | (t17 != t17)) ? t17 : t18);
        const float t20 = arg0[1 + (k1*v0) + (24*v1) + (2*v2)];
        const float t21 = (((t19 > t20) | (t19 != t19)) ? t19 : t20);
        float m22 = (-INFINITY);
        if (t4) {
            const float t23 = arg0[11 + (k1*v0) + (24*v1) + (2*v2)];
            m22 = t23;
        }
        const float t24 = (((t21 > m22) | (t21 != t21)) ? t21 : m22);
        const float t25 = arg0[12 + (k1*v0) + (24*v1) + (2*v2)];
        const float t26 = (((t24 > t25) | (t24 != t24)) ? t24 : t25);
        const float t27 = arg0[13 + (k1*v0) + (24*v1) + (2*v2)];
        const float t28 = (((t26 > t27) | (t26 != t26)) ? t26 : t27);
        arg1[(k2*v0) + (6*v1) + v2] = t28;
    }
}
