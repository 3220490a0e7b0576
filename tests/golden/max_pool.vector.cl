#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_max_pool2d_with_indices(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    int v1 = first / (6);
    int v2 = (first) % (6);
    for (int tile = first; tile < last; ++tile) {
        const int t0 = (int)((2*v1) - 1);
        const int t1 = (t0 >= 0);
        const int t2 = (int)((2*v2) - 1);
        const int t3 = (t2 >= 0);
        const int t4 = (t1 & t3);
        for (int v0 = 0; v0 < 8; v0 += 8) {
            float8 m5 = (float8)((-INFINITY));
            if (t4) {
                const int i6 = (k1*v0) + (24*v1) + (2*v2) - 13;
                const float8 t7 = (float8)(arg0[i6], arg0[i6 + 144], arg0[i6 + 288], arg0[i6 + 432], arg0[i6 + 576], arg0[i6 + 720], arg0[i6 + 864], arg0[i6 + 1008]);
                m5 = t7;
            }
            const float8 t8 = ((((float8)((-INFINITY)) > m5) | ((float8)((-INFINITY)) != (float8)((-INFINITY)))) ? (float8)((-INFINITY)) : m5);
            float8 m9 = (float8)((-INFINITY));
            if (t1) {
                const int i10 = (k1*v0) + (24*v1) + (2*v2) - 12;
                const float8 t11 = (float8)(arg0[i10], arg0[i10 + 144], arg0[i10 + 288], arg0[i10 + 432], arg0[i10 + 576], arg0[i10 + 720], arg0[i10 + 864], arg0[i10 + 1008]);
                m9 = t11;
            }
            const float8 t12 = (((t8 > m9) | (t8 != t8)) ? t8 : m9);
            float8 m13 = (float8)((-INFINITY));
            if (t1) {
                const int i14 = (k1*v0) + (24*v1) + (2*v2) - 11;
                const float8 t15 = (float8)(arg0[i14], arg0[i14 + 144], arg0[i14 + 288], arg0[i14 + 432], arg0[i14 + 576], arg0[i14 + 720], arg0[i14 + 864], arg0[i14 + 1008]);
                m13 = t15;
            }
            const float8 t16 = (((t12 > m13) | (t12 != t12)) ? t12 : m13);
            float8 m17 = (float8)((-INFINITY));
            if (t3) {
                const int i18 = (k1*v0) + (24*v1) + (2*v2) - 1;
                const float8 t19 = (float8)(arg0[i18], arg0[i18 + 144], arg0[i18 + 288], arg0[i18 + 432], arg0[i18 + 576], arg0[i18 + 720], arg0[i18 + 864], arg0[i18 + 1008]);
                m17 = t19;
            }
            const float8 t20 = (((t16 > m17) | (t16 != t16)) ? t16 : m17);
            const int i21 = (k1*v0) + (24*v1) + (2*v2);
            const float8 t22 = (float8)(arg0[i21], arg0[i21 + 144], arg0[i21 + 288], arg0[i21 + 432], arg0[i21 + 576], arg0[i21 + 720], arg0[i21 + 864], arg0[i21 + 1008]);
            const float8 t23 = (((t20 > t22) | (t20 != t20)) ? t20 : t22);
            const int i24 = 1 + (k1*v0) + (24*v1) + (2*v2);
            const float8 t25 = (float8)(arg0[i24], arg0[i24 + 144], arg0[i24 + 288], arg0[i24 + 432], arg0[i24 + 576], arg0[i24 + 720], arg0[i24 + 864], arg0[i24 + 1008]);
            const float8 t26 = (((t23 > t25) | (t23 != t23)) ? t23 : t25);
            float8 m27 = (float8)((-INFINITY));
            if (t3) {
                const int i28 = 11 + (k1*v0) + (24*v1) + (2*v2);
                const float8 t29 = (float8)(arg0[i28], arg0[i28 + 144], arg0[i28 + 288], arg0[i28 + 432], arg0[i28 + 576], arg0[i28 + 720], arg0[i28 + 864], arg0[i28 + 1008]);
                m27 = t29;
            }
            const float8 t30 = (((t26 > m27) | (t26 != t26)) ? t26 : m27);
            const int i31 = 12 + (k1*v0) + (24*v1) + (2*v2);
            const float8 t32 = (float8)(arg0[i31], arg0[i31 + 144], arg0[i31 + 288], arg0[i31 + 432], arg0[i31 + 576], arg0[i31 + 720], arg0[i31 + 864], arg0[i31 + 1008]);
            const float8 t33 = (((t30 > t32) | (t30 != t30)) ? t30 : t32);
            const int i34 = 13 + (k1*v0) + (24*v1) + (2*v2);
            const float8 t35 = (float8)(arg0[i34], arg0[i34 + 144], arg0[i34 + 288], arg0[i34 + 432], arg0[i34 + 576], arg0[i34 + 720], arg0[i34 + 864], arg0[i34 + 1008]);
            const float8 t36 = (((t33 > t35) | (t33 != t33)) ? t33 : t35);
            const int i37 = (k0*v0) + (6*v1) + v2;
            const float8 x38 = t36;
            arg1[i37] = x38.s0;
            arg1[i37 + 36] = x38.s1;
            arg1[i37 + 72] = x38.s2;
            arg1[i37 + 108] = x38.s3;
            arg1[i37 + 144] = x38.s4;
            arg1[i37 + 180] = x38.s5;
            arg1[i37 + 216] = x38.s6;
            arg1[i37 + 252] = x38.s7;
        }
        if (++v2 == 6) {
            v2 = 0;
            ++v1;
        }
    }
}
