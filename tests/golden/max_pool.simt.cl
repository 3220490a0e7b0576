#pragma OPENCL FP_CONTRACT ON

__kernel 
void pointwise_max_pool2d_with_indices(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1, const int k2)
{
    const int point = get_global_id(0);
    if (point < k0) {
        const int v0 = point / (k1);
        const int v1 = (point / (6)) % (6);
        const int v2 = (point) % (6);
        const int t0 = (int)((2*v1) - 1);
        const int t1 = (t0 >= 0);
        const int t2 = (int)((2*v2) - 1);
        const int t3 = (t2 >= 0);
        const int t4 = (t1 & t3);
        float m5 = (-INFINITY);
        if (t4) {
            const float t6 = arg0[(k2*v0) + (24*v1) + (2*v2) - 13];
            m5 = t6;
        }
        const float t7 = ((((-INFINITY) > m5) | ((-INFINITY) != (-INFINITY))) ? (-INFINITY) : m5);
        float m8 = (-INFINITY);
        if (t1) {
            const float t9 = arg0[(k2*v0) + (24*v1) + (2*v2) - 12];
            m8 = t9;
        }
        const float t10 = (((t7 > m8) | (t7 != t7)) ? t7 : m8);
        float m11 = (-INFINITY);
        if (t1) {
            const float t12 = arg0[(k2*v0) + (24*v1) + (2*v2) - 11];
            m11 = t12;
        }
        const float t13 = (((t10 > m11) | (t10 != t10)) ? t10 : m11);
        float m14 = (-INFINITY);
        if (t3) {
            const float t15 = arg0[(k2*v0) + (24*v1) + (2*v2) - 1];
            m14 = t15;
        }
        const float t16 = (((t13 > m14) | (t13 != t13)) ? t13 : m14);
        const float t17 = arg0[(k2*v0) + (24*v1) + (2*v2)];
        const float t18 = (((t16 > t17) | (t16 != t16)) ? t16 : t17);
        const float t19 = arg0[1 + (k2*v0) + (24*v1) + (2*v2)];
        const float t20 = (((t18 > t19) | (t18 != t18)) ? t18 : t19);
        float m21 = (-INFINITY);
        if (t3) {
            const float t22 = arg0[11 + (k2*v0) + (24*v1) + (2*v2)];
            m21 = t22;
        }
        const float t23 = (((t20 > m21) | (t20 != t20)) ? t20 : m21);
        const float t24 = arg0[12 + (k2*v0) + (24*v1) + (2*v2)];
        const float t25 = (((t23 > t24) | (t23 != t23)) ? t23 : t24);
        const float t26 = arg0[13 + (k2*v0) + (24*v1) + (2*v2)];
        const float t27 = (((t25 > t26) | (t25 != t25)) ? t25 : t26);
        arg1[(k1*v0) + (6*v1) + v2] = t27;
    }
}
