#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void prologue(__global const float *restrict arg0, __global float *restrict arg1, const long dim0, const long dim1, const long dim2, const long dim3, const long dim4)
{
    const size_t item0 = get_global_id(0);
    const long point = item0;
    if (point < dim0*dim1*dim2) {
        const long q0 = point / (dim2);
        const long v2 = point % (dim2);
        const long v0 = q0 / (dim1);
        const long v1 = q0 % (dim1);
        const float t1 = arg0[v0 + (v1*dim0) + (v2*dim3)];
        arg1[v2 + (v1*dim2) + (v0*dim4)] = t1;
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float4 float4u __attribute__((aligned(4)));
typedef float4 vec_t;
typedef float4 __attribute__((aligned(4))) vec_u;

// A work-group computes 64 pixels by 32 channels of a group, 16 terms of the sums at a time; a
// work-item 8 by 4 of them.
__kernel __attribute__((reqd_work_group_size(8, 8, 1)))
void conv_convolution(__global const float *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0, const int k1, const int k2, const int k3, const int k4)
{
    const int lid = get_local_id(1) * 8 + get_local_id(0);
    const int lx = lid % 8, ly = lid / 8;
    const int group = get_global_id(2);
    const int n0 = get_group_id(0) * 32;
    const int m0 = (int)get_group_id(1) * 64;
    const int I0 = 14, O0 = 14;
    const int xs0 = 14;
    const int I1 = 14, O1 = 14;
    const int xs1 = 1;
    const int pixels = (int)(2) * O0 * O1;
    const int xc = k0;
    __global const float *x = arg0;
    __global const float *w = arg1;
    __local float la[2048] __attribute__((aligned(64)));
    __local float lb[1024] __attribute__((aligned(64)));
    float ra0 = 0, ra1 = 0, ra2 = 0, ra3 = 0, ra4 = 0, ra5 = 0, ra6 = 0, ra7 = 0, ra8 = 0, ra9 = 0, ra10 = 0, ra11 = 0, ra12 = 0, ra13 = 0, ra14 = 0, ra15 = 0;
    float rb0 = 0, rb1 = 0, rb2 = 0, rb3 = 0, rb4 = 0, rb5 = 0, rb6 = 0, rb7 = 0;
    float4 c0_0 = 0;
    float4 c1_0 = 0;
    float4 c2_0 = 0;
    float4 c3_0 = 0;
    float4 c4_0 = 0;
    float4 c5_0 = 0;
    float4 c6_0 = 0;
    float4 c7_0 = 0;
    const int a_row = lid, a_k = 0;
    const int b_row = lid % 32, b_k = lid / 32;
    int row_at0;
    int begin0_0, begin1_0;
    {
        const int m = min(m0 + a_row, pixels - 1);
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        row_at0 = q0 * (int)(k1);
        begin0_0 = (int)q1 - 1;
        row_at0 += begin0_0 * xs0;
        begin1_0 = (int)q2 - 1;
        row_at0 += begin1_0 * xs1;
    }
    int channel = 0, tap0 = 0, tap1 = 0;
    uint w_at0 = b_k * 32 + n0 + b_row;
    int turn = 0;
    {
        const bool there_0 = ((uint)(begin0_0 + tap0) < (uint)I0) & ((uint)(begin1_0 + tap1) < (uint)I1);
        __global const float *here = x + channel * xc + tap0 * xs0 + tap1 * xs1;
        ra0 = there_0 ? here[row_at0 + a_k * xc] : (float)(0);
        ra1 = there_0 ? here[row_at0 + (a_k + 1) * xc] : (float)(0);
        ra2 = there_0 ? here[row_at0 + (a_k + 2) * xc] : (float)(0);
        ra3 = there_0 ? here[row_at0 + (a_k + 3) * xc] : (float)(0);
        ra4 = there_0 ? here[row_at0 + (a_k + 4) * xc] : (float)(0);
        ra5 = there_0 ? here[row_at0 + (a_k + 5) * xc] : (float)(0);
        ra6 = there_0 ? here[row_at0 + (a_k + 6) * xc] : (float)(0);
        ra7 = there_0 ? here[row_at0 + (a_k + 7) * xc] : (float)(0);
        ra8 = there_0 ? here[row_at0 + (a_k + 8) * xc] : (float)(0);
        ra9 = there_0 ? here[row_at0 + (a_k + 9) * xc] : (float)(0);
        ra10 = there_0 ? here[row_at0 + (a_k + 10) * xc] : (float)(0);
        ra11 = there_0 ? here[row_at0 + (a_k + 11) * xc] : (float)(0);
        ra12 = there_0 ? here[row_at0 + (a_k + 12) * xc] : (float)(0);
        ra13 = there_0 ? here[row_at0 + (a_k + 13) * xc] : (float)(0);
        ra14 = there_0 ? here[row_at0 + (a_k + 14) * xc] : (float)(0);
        ra15 = there_0 ? here[row_at0 + (a_k + 15) * xc] : (float)(0);
    }
    {
        rb0 = w[w_at0];
        rb1 = w[w_at0 + 64];
        rb2 = w[w_at0 + 128];
        rb3 = w[w_at0 + 192];
        rb4 = w[w_at0 + 256];
        rb5 = w[w_at0 + 320];
        rb6 = w[w_at0 + 384];
        rb7 = w[w_at0 + 448];
    }
    w_at0 += 16 * 32;
    channel += 16;
    if (channel >= 16) {
        channel = 0;
        if (++tap1 == 3) { tap1 = 0; ++tap0; }
    }
    {
        __local float *to = la + turn * 1024 + a_k * 64 + a_row;
        to[0] = ra0;
        to[64] = ra1;
        to[128] = ra2;
        to[192] = ra3;
        to[256] = ra4;
        to[320] = ra5;
        to[384] = ra6;
        to[448] = ra7;
        to[512] = ra8;
        to[576] = ra9;
        to[640] = ra10;
        to[704] = ra11;
        to[768] = ra12;
        to[832] = ra13;
        to[896] = ra14;
        to[960] = ra15;
    }
    {
        __local float *to = lb + turn * 512 + b_k * 32 + b_row;
        to[0] = rb0;
        to[64] = rb1;
        to[128] = rb2;
        to[192] = rb3;
        to[256] = rb4;
        to[320] = rb5;
        to[384] = rb6;
        to[448] = rb7;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int slab = 1; slab <= 9; ++slab) {
        // The next slab is on its way while this one is used.
        if (slab < 9) {
            {
                const bool there_0 = ((uint)(begin0_0 + tap0) < (uint)I0) & ((uint)(begin1_0 + tap1) < (uint)I1);
                __global const float *here = x + channel * xc + tap0 * xs0 + tap1 * xs1;
                ra0 = there_0 ? here[row_at0 + a_k * xc] : (float)(0);
                ra1 = there_0 ? here[row_at0 + (a_k + 1) * xc] : (float)(0);
                ra2 = there_0 ? here[row_at0 + (a_k + 2) * xc] : (float)(0);
                ra3 = there_0 ? here[row_at0 + (a_k + 3) * xc] : (float)(0);
                ra4 = there_0 ? here[row_at0 + (a_k + 4) * xc] : (float)(0);
                ra5 = there_0 ? here[row_at0 + (a_k + 5) * xc] : (float)(0);
                ra6 = there_0 ? here[row_at0 + (a_k + 6) * xc] : (float)(0);
                ra7 = there_0 ? here[row_at0 + (a_k + 7) * xc] : (float)(0);
                ra8 = there_0 ? here[row_at0 + (a_k + 8) * xc] : (float)(0);
                ra9 = there_0 ? here[row_at0 + (a_k + 9) * xc] : (float)(0);
                ra10 = there_0 ? here[row_at0 + (a_k + 10) * xc] : (float)(0);
                ra11 = there_0 ? here[row_at0 + (a_k + 11) * xc] : (float)(0);
                ra12 = there_0 ? here[row_at0 + (a_k + 12) * xc] : (float)(0);
                ra13 = there_0 ? here[row_at0 + (a_k + 13) * xc] : (float)(0);
                ra14 = there_0 ? here[row_at0 + (a_k + 14) * xc] : (float)(0);
                ra15 = there_0 ? here[row_at0 + (a_k + 15) * xc] : (float)(0);
            }
            {
                rb0 = w[w_at0];
                rb1 = w[w_at0 + 64];
                rb2 = w[w_at0 + 128];
                rb3 = w[w_at0 + 192];
                rb4 = w[w_at0 + 256];
                rb5 = w[w_at0 + 320];
                rb6 = w[w_at0 + 384];
                rb7 = w[w_at0 + 448];
            }
            w_at0 += 16 * 32;
            channel += 16;
            if (channel >= 16) {
                channel = 0;
                if (++tap1 == 3) { tap1 = 0; ++tap0; }
            }
        }
        {
            __local const float *as = la + turn * 1024 + ly * 4;
            __local const float *bs = lb + turn * 512 + lx * 4;
            #pragma unroll 2
            for (int k = 0; k < 16; ++k) {
                const float4 a0 = *(__local const float4 *)(as + k * 64);
                const float4 a1 = *(__local const float4 *)(as + k * 64 + 32);
                const float4 b0 = *(__local const float4 *)(bs + k * 32);
                c0_0 += a0.s0 * b0;
                c1_0 += a0.s1 * b0;
                c2_0 += a0.s2 * b0;
                c3_0 += a0.s3 * b0;
                c4_0 += a1.s0 * b0;
                c5_0 += a1.s1 * b0;
                c6_0 += a1.s2 * b0;
                c7_0 += a1.s3 * b0;
            }
        }
        if (slab < 9) {
            turn ^= 1;
            {
                __local float *to = la + turn * 1024 + a_k * 64 + a_row;
                to[0] = ra0;
                to[64] = ra1;
                to[128] = ra2;
                to[192] = ra3;
                to[256] = ra4;
                to[320] = ra5;
                to[384] = ra6;
                to[448] = ra7;
                to[512] = ra8;
                to[576] = ra9;
                to[640] = ra10;
                to[704] = ra11;
                to[768] = ra12;
                to[832] = ra13;
                to[896] = ra14;
                to[960] = ra15;
            }
            {
                __local float *to = lb + turn * 512 + b_k * 32 + b_row;
                to[0] = rb0;
                to[64] = rb1;
                to[128] = rb2;
                to[192] = rb3;
                to[256] = rb4;
                to[320] = rb5;
                to[384] = rb6;
                to[448] = rb7;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (m0 + ly * 4 < pixels) {
        const int m = m0 + ly * 4;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c0_0;
            const int c4 = pn;
            const int c5 = p0;
            const int c6 = p1;
            const int c7 = oc;
            *(__global float4u*)(arg2 + ((k2*c4) + (k3*c5) + (k4*c6) + c7)) = value;
        }
    }
    if (m0 + ly * 4 + 1 < pixels) {
        const int m = m0 + ly * 4 + 1;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c1_0;
            const int c8 = pn;
            const int c9 = p0;
            const int c10 = p1;
            const int c11 = oc;
            *(__global float4u*)(arg2 + ((k2*c8) + (k3*c9) + (k4*c10) + c11)) = value;
        }
    }
    if (m0 + ly * 4 + 2 < pixels) {
        const int m = m0 + ly * 4 + 2;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c2_0;
            const int c12 = pn;
            const int c13 = p0;
            const int c14 = p1;
            const int c15 = oc;
            *(__global float4u*)(arg2 + ((k2*c12) + (k3*c13) + (k4*c14) + c15)) = value;
        }
    }
    if (m0 + ly * 4 + 3 < pixels) {
        const int m = m0 + ly * 4 + 3;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c3_0;
            const int c16 = pn;
            const int c17 = p0;
            const int c18 = p1;
            const int c19 = oc;
            *(__global float4u*)(arg2 + ((k2*c16) + (k3*c17) + (k4*c18) + c19)) = value;
        }
    }
    if (m0 + ly * 4 + 32 < pixels) {
        const int m = m0 + ly * 4 + 32;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c4_0;
            const int c20 = pn;
            const int c21 = p0;
            const int c22 = p1;
            const int c23 = oc;
            *(__global float4u*)(arg2 + ((k2*c20) + (k3*c21) + (k4*c22) + c23)) = value;
        }
    }
    if (m0 + ly * 4 + 33 < pixels) {
        const int m = m0 + ly * 4 + 33;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c5_0;
            const int c24 = pn;
            const int c25 = p0;
            const int c26 = p1;
            const int c27 = oc;
            *(__global float4u*)(arg2 + ((k2*c24) + (k3*c25) + (k4*c26) + c27)) = value;
        }
    }
    if (m0 + ly * 4 + 34 < pixels) {
        const int m = m0 + ly * 4 + 34;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c6_0;
            const int c28 = pn;
            const int c29 = p0;
            const int c30 = p1;
            const int c31 = oc;
            *(__global float4u*)(arg2 + ((k2*c28) + (k3*c29) + (k4*c30) + c31)) = value;
        }
    }
    if (m0 + ly * 4 + 35 < pixels) {
        const int m = m0 + ly * 4 + 35;
        int q_rest = m;
        const int q2 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q1 = q_rest % (int)(14);
        q_rest /= (int)(14);
        const int q0 = q_rest;
        const int pn = q0, p0 = q1, p1 = q2;
        {
            const int oc = n0 + lx * 4;
            const float4 value = c7_0;
            const int c32 = pn;
            const int c33 = p0;
            const int c34 = p1;
            const int c35 = oc;
            *(__global float4u*)(arg2 + ((k2*c32) + (k3*c33) + (k4*c34) + c35)) = value;
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float4 float4u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1024, 1, 1)))
void reduction_mean(__global const float *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0, const int k1, const int k2)
{
    __local float4 acc_arg3_local[1024];
    const int lid = get_local_id(0);
    const int across = lid % 16;
    const int down = lid / 16;
    const int point = (int)get_group_id(0) * 16 + across;
    {
        const int v0 = point / (8);
        const int v1 = point % (8) * 4;
        float4 acc_arg3 = (float4)(0.0f);
        const float4 t1 = (*(__global const float4u*)(arg1 + (v1)));
        for (int swept = down; swept < k0; swept += 64) {
            const int v2 = swept;
            const float4 t0 = (*(__global const float4u*)(arg0 + ((k1*v0) + v1 + (k2*v2))));
            const float4 t2 = (t0 + t1);
            const float4 t3 = (t2 <= (float4)(0.0f) ? (float4)(0.0f) : t2);
            acc_arg3 = (acc_arg3 + t3);
        }
        acc_arg3_local[lid] = acc_arg3;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (down < 8) {
            for (int k = 1; k < 8; ++k) {
                const float4 acc_arg3_other = acc_arg3_local[lid + k * 128];
                acc_arg3 = (acc_arg3 + acc_arg3_other);
            }
            acc_arg3_local[lid] = acc_arg3;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        acc_arg3 = acc_arg3_local[across];
        for (int k = 1; k < 8; ++k) {
            const float4 acc_arg3_other = acc_arg3_local[across + k * 16];
            acc_arg3 = (acc_arg3 + acc_arg3_other);
        }
        const float4 r4 = acc_arg3;
        const float4 t5 = (r4 / (float4)(196.0f));
        if (down == 0) {
            *(__global float4u*)(arg2 + ((k2*v0) + v1)) = t5;
        }
    }
}
