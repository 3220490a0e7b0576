#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_max_pool2d_with_indices(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const int first = (int)get_global_id(0) * (int)(k0);
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
                const int8 i6 = (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2) - 13;
                const float8 t7 = (float8)(arg0[i6.s0], arg0[i6.s1], arg0[i6.s2], arg0[i6.s3], arg0[i6.s4], arg0[i6.s5], arg0[i6.s6], arg0[i6.s7]);
                m5 = t7;
            }
            const float8 t8 = ((((float8)((-INFINITY)) > m5) | ((float8)((-INFINITY)) != (float8)((-INFINITY)))) ? (float8)((-INFINITY)) : m5);
            float8 m9 = (float8)((-INFINITY));
            if (t1) {
                const int8 i10 = (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2) - 12;
                const float8 t11 = (float8)(arg0[i10.s0], arg0[i10.s1], arg0[i10.s2], arg0[i10.s3], arg0[i10.s4], arg0[i10.s5], arg0[i10.s6], arg0[i10.s7]);
                m9 = t11;
            }
            const float8 t12 = (((t8 > m9) | (t8 != t8)) ? t8 : m9);
            float8 m13 = (float8)((-INFINITY));
            if (t1) {
                const int8 i14 = (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2) - 11;
                const float8 t15 = (float8)(arg0[i14.s0], arg0[i14.s1], arg0[i14.s2], arg0[i14.s3], arg0[i14.s4], arg0[i14.s5], arg0[i14.s6], arg0[i14.s7]);
                m13 = t15;
            }
            const float8 t16 = (((t12 > m13) | (t12 != t12)) ? t12 : m13);
            float8 m17 = (float8)((-INFINITY));
            if (t3) {
                const int8 i18 = (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2) - 1;
                const float8 t19 = (float8)(arg0[i18.s0], arg0[i18.s1], arg0[i18.s2], arg0[i18.s3], arg0[i18.s4], arg0[i18.s5], arg0[i18.s6], arg0[i18.s7]);
                m17 = t19;
            }
            const float8 t20 = (((t16 > m17) | (t16 != t16)) ? t16 : m17);
            const int8 i21 = (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2);
            const float8 t22 = (float8)(arg0[i21.s0], arg0[i21.s1], arg0[i21.s2], arg0[i21.s3], arg0[i21.s4], arg0[i21.s5], arg0[i21.s6], arg0[i21.s7]);
            const float8 t23 = (((t20 > t22) | (t20 != t20)) ? t20 : t22);
            const int8 i24 = 1 + (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2);
            const float8 t25 = (float8)(arg0[i24.s0], arg0[i24.s1], arg0[i24.s2], arg0[i24.s3], arg0[i24.s4], arg0[i24.s5], arg0[i24.s6], arg0[i24.s7]);
            const float8 t26 = (((t23 > t25) | (t23 != t23)) ? t23 : t25);
            float8 m27 = (float8)((-INFINITY));
            if (t3) {
                const int8 i28 = 11 + (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2);
                const float8 t29 = (float8)(arg0[i28.s0], arg0[i28.s1], arg0[i28.s2], arg0[i28.s3], arg0[i28.s4], arg0[i28.s5], arg0[i28.s6], arg0[i28.s7]);
                m27 = t29;
            }
            const float8 t30 = (((t26 > m27) | (t26 != t26)) ? t26 : m27);
            const int8 i31 = 12 + (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2);
            const float8 t32 = (float8)(arg0[i31.s0], arg0[i31.s1], arg0[i31.s2], arg0[i31.s3], arg0[i31.s4], arg0[i31.s5], arg0[i31.s6], arg0[i31.s7]);
            const float8 t33 = (((t30 > t32) | (t30 != t30)) ? t30 : t32);
            const int8 i34 = 13 + (144*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (24*v1) + (2*v2);
            const float8 t35 = (float8)(arg0[i34.s0], arg0[i34.s1], arg0[i34.s2], arg0[i34.s3], arg0[i34.s4], arg0[i34.s5], arg0[i34.s6], arg0[i34.s7]);
            const float8 t36 = (((t33 > t35) | (t33 != t33)) ? t33 : t35);
            const int8 i37 = (36*(((int8)(v0) + (int8)(0, 1, 2, 3, 4, 5, 6, 7)))) + (6*v1) + v2;
            const float8 x38 = t36;
            arg1[i37.s0] = x38.s0;
            arg1[i37.s1] = x38.s1;
            arg1[i37.s2] = x38.s2;
            arg1[i37.s3] = x38.s3;
            arg1[i37.s4] = x38.s4;
            arg1[i37.s5] = x38.s5;
            arg1[i37.s6] = x38.s6;
            arg1[i37.s7] = x38.s7;
        }
        if (++v2 == 6) {
            v2 = 0;
            ++v1;
        }
    }
}
