#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void prologue(__global const float *restrict arg0, __global float *restrict arg1, const long dim0, const long dim1, const long dim2, const long dim3, const long dim4, const int k0)
{
    const size_t item0 = get_global_id(0);
    const long first = (long)item0 * (long)(max((long)(2), (long)((15 + (dim0*dim1*((k0 + dim2) / 4096))) / 16)));
    const long last = min(first + (long)(max((long)(2), (long)((15 + (dim0*dim1*((k0 + dim2) / 4096))) / 16))), (long)(dim0*dim1*((k0 + dim2) / 4096)));
    for (long tile = first; tile < last; ++tile) {
        const long row = tile / ((k0 + dim2) / 4096);
        const long v0 = row / (dim1);
        const long v1 = (row) % (dim1);
        const long begin = (tile % ((k0 + dim2) / 4096)) * 4096;
        const long end = min(begin + 4096, (long)(dim2));
        long v2 = begin;
        for (; v2 + 8 <= end; v2 += 8) {
            const long i0 = (v2*dim1) + (dim3*(v1 % dim2)) + (v0*dim4) + (v1 / dim2);
            const long i0_step = dim1;
            const float8 t1 = (float8)(arg0[i0 + 0 * i0_step], arg0[i0 + 1 * i0_step], arg0[i0 + 2 * i0_step], arg0[i0 + 3 * i0_step], arg0[i0 + 4 * i0_step], arg0[i0 + 5 * i0_step], arg0[i0 + 6 * i0_step], arg0[i0 + 7 * i0_step]);
            *(__global float8u*)(arg1 + (v2 + (v1*dim2) + (v0*dim4))) = t1;
        }
        for (; v2 < end; ++v2) {
            const float t2 = arg0[(v2*dim1) + (dim3*(v1 % dim2)) + (v0*dim4) + (v1 / dim2)];
            arg1[v2 + (v1*dim2) + (v0*dim4)] = t2;
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void prologue(__global float *restrict arg0, const long dim0, const int k0)
{
    const size_t item0 = get_global_id(0);
    const long first = (long)item0 * (long)(max((long)(2), (long)((15 + ((k0 + dim0) / 4096)) / 16)));
    const long last = min(first + (long)(max((long)(2), (long)((15 + ((k0 + dim0) / 4096)) / 16))), (long)((k0 + dim0) / 4096));
    for (long tile = first; tile < last; ++tile) {
        const long row = tile / ((k0 + dim0) / 4096);
        const long begin = (tile % ((k0 + dim0) / 4096)) * 4096;
        const long end = min(begin + 4096, (long)(dim0));
        long v0 = begin;
        for (; v0 + 8 <= end; v0 += 8) {
            *(__global float8u*)(arg0 + (v0)) = (float8)(0.0f);
        }
        for (; v0 < end; ++v0) {
            arg0[v0] = 0.0f;
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_convolution(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1, const int k2)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k0));
    int v0 = first / (k1);
    int v1 = (first) % (k1);
    for (int tile = first; tile < last; ++tile) {
        for (int v2 = 0; v2 < 16; v2 += 8) {
            const int i0 = (k2*v0) + v1 + (k1*v2);
            const float8 t1 = (float8)(arg0[i0], arg0[i0 + 196], arg0[i0 + 392], arg0[i0 + 588], arg0[i0 + 784], arg0[i0 + 980], arg0[i0 + 1176], arg0[i0 + 1372]);
            *(__global float8u*)(arg1 + ((k2*v0) + (16*v1) + v2)) = t1;
        }
        if (++v1 == k1) {
            v1 = 0;
            ++v0;
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));
typedef float8 vec_t;
typedef float8 __attribute__((aligned(4))) vec_u;

// A work-item computes up to 17 tiles of 6 pixels of one panel of 16 channels.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv_convolution(__global const float *restrict arg0, __global const float *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0, const int k1, const int k2, const int k3, const int k4)
{
    const size_t item0 = get_global_id(0);
    const size_t item1 = get_global_id(1);
    const size_t item2 = get_global_id(2);
    const int panel = item0, group = item2;
    const int n0 = panel * 16;
    const int I0 = 14, O0 = 14;
    const long xs0 = k0;
    const int I1 = 14, O1 = 14;
    const long xs1 = 16;
    const long pixels = (long)(2) * O0 * O1;
    __global const float *restrict x = arg0 + (long)(0)
        + group * 16;
    __global const float *restrict b = arg1
        + ((long)group * 2 + panel) * 2304;
    __global const float *restrict zero = arg2;
    const long tiles = (pixels + 5) / 6;
    const long tile_end = min((long)(item1 + 1) * 17, tiles);
    for (long tile = (long)item1 * 17; tile < tile_end; ++tile) {
        const long m0 = tile * 6;
        long q_rest = m0;
        const long q2 = q_rest % (long)(14);
        q_rest /= (long)(14);
        const long q1 = q_rest % (long)(14);
        q_rest /= (long)(14);
        const long q0 = q_rest;

        // Where each pixel's window starts: coordinates s, and the element offset.
        // Pixels past the last one repeat it.
        long origin[6];
        int start0[6];
        int start1[6];
        {
            long pn = q0;
            int p0 = (int)q1, p1 = (int)q2;
            for (int i = 0; i < 6; ++i) {
                start0[i] = p0 * 1 - 1;
                start1[i] = p1 * 1 - 1;
                origin[i] = pn * (long)(k1) + start0[i] * xs0 + start1[i] * xs1;
                if (m0 + i + 1 < pixels) {
                    if (++p1 == O1) { p1 = 0; if (++p0 == O0) { p0 = 0; ++pn; } }
                }
            }
        }
        vec_t c0_0 = (vec_t)(0), c0_1 = (vec_t)(0);
        vec_t c1_0 = (vec_t)(0), c1_1 = (vec_t)(0);
        vec_t c2_0 = (vec_t)(0), c2_1 = (vec_t)(0);
        vec_t c3_0 = (vec_t)(0), c3_1 = (vec_t)(0);
        vec_t c4_0 = (vec_t)(0), c4_1 = (vec_t)(0);
        vec_t c5_0 = (vec_t)(0), c5_1 = (vec_t)(0);
        __global const float *restrict wk = b;
        for (int t0 = 0; t0 < 3; ++t0)
        for (int t1 = 0; t1 < 3; ++t1)
        {
            const long step = 0 + t0 * 1 * xs0 + t1 * 1 * xs1;
            __global const float *restrict x0 = (((uint)(start0[0] + t0 * 1) < (uint)I0) & ((uint)(start1[0] + t1 * 1) < (uint)I1)) ? x + (origin[0] + step) : zero;
            __global const float *restrict x1 = (((uint)(start0[1] + t0 * 1) < (uint)I0) & ((uint)(start1[1] + t1 * 1) < (uint)I1)) ? x + (origin[1] + step) : zero;
            __global const float *restrict x2 = (((uint)(start0[2] + t0 * 1) < (uint)I0) & ((uint)(start1[2] + t1 * 1) < (uint)I1)) ? x + (origin[2] + step) : zero;
            __global const float *restrict x3 = (((uint)(start0[3] + t0 * 1) < (uint)I0) & ((uint)(start1[3] + t1 * 1) < (uint)I1)) ? x + (origin[3] + step) : zero;
            __global const float *restrict x4 = (((uint)(start0[4] + t0 * 1) < (uint)I0) & ((uint)(start1[4] + t1 * 1) < (uint)I1)) ? x + (origin[4] + step) : zero;
            __global const float *restrict x5 = (((uint)(start0[5] + t0 * 1) < (uint)I0) & ((uint)(start1[5] + t1 * 1) < (uint)I1)) ? x + (origin[5] + step) : zero;
            #pragma unroll 4
            for (int c = 0; c < 16; ++c, wk += 16) {
                __builtin_prefetch((const void *)(ulong)(wk + 192));
                const vec_t b0 = *(__global const vec_u *)(wk + 0);
                const vec_t b1 = *(__global const vec_u *)(wk + 8);
                { const float s = x0[c]; c0_0 += s * b0; c0_1 += s * b1; }
                { const float s = x1[c]; c1_0 += s * b0; c1_1 += s * b1; }
                { const float s = x2[c]; c2_0 += s * b0; c2_1 += s * b1; }
                { const float s = x3[c]; c3_0 += s * b0; c3_1 += s * b1; }
                { const float s = x4[c]; c4_0 += s * b0; c4_1 += s * b1; }
                { const float s = x5[c]; c5_0 += s * b0; c5_1 += s * b1; }
            }
        }
        const int row_end = (int)min((long)6, pixels - m0);
        long pn = q0;
        int p0 = (int)q1, p1 = (int)q2;
        if (0 < row_end) {
            {
                const long oc = group * 32 + n0 + 0;
                const vec_t value = c0_0;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            {
                const long oc = group * 32 + n0 + 8;
                const vec_t value = c0_1;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            if (++p1 == O1) { p1 = 0; if (++p0 == O0) { p0 = 0; ++pn; } }
        }
        if (1 < row_end) {
            {
                const long oc = group * 32 + n0 + 0;
                const vec_t value = c1_0;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            {
                const long oc = group * 32 + n0 + 8;
                const vec_t value = c1_1;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            if (++p1 == O1) { p1 = 0; if (++p0 == O0) { p0 = 0; ++pn; } }
        }
        if (2 < row_end) {
            {
                const long oc = group * 32 + n0 + 0;
                const vec_t value = c2_0;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            {
                const long oc = group * 32 + n0 + 8;
                const vec_t value = c2_1;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            if (++p1 == O1) { p1 = 0; if (++p0 == O0) { p0 = 0; ++pn; } }
        }
        if (3 < row_end) {
            {
                const long oc = group * 32 + n0 + 0;
                const vec_t value = c3_0;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            {
                const long oc = group * 32 + n0 + 8;
                const vec_t value = c3_1;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            if (++p1 == O1) { p1 = 0; if (++p0 == O0) { p0 = 0; ++pn; } }
        }
        if (4 < row_end) {
            {
                const long oc = group * 32 + n0 + 0;
                const vec_t value = c4_0;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            {
                const long oc = group * 32 + n0 + 8;
                const vec_t value = c4_1;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            if (++p1 == O1) { p1 = 0; if (++p0 == O0) { p0 = 0; ++pn; } }
        }
        if (5 < row_end) {
            {
                const long oc = group * 32 + n0 + 0;
                const vec_t value = c5_0;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            {
                const long oc = group * 32 + n0 + 8;
                const vec_t value = c5_1;
                const int c0 = pn;
                const int c1 = p0;
                const int c2 = p1;
                const int c3 = oc;
                *(__global float8u*)(arg3 + ((k2*c0) + (k3*c1) + (k4*c2) + c3)) = value;
            }
            if (++p1 == O1) { p1 = 0; if (++p0 == O0) { p0 = 0; ++pn; } }
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduction_mean(__global const float *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0, const int k1, const int k2)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * 2;
    const int last = min(first + 2, 2);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        for (int v1 = 0; v1 < k0; v1 += 8) {
            float8 acc_arg3 = (float8)(0.0f);
            const float8 t1 = (*(__global const float8u*)(arg1 + (v1)));
            for (int v2_first = 0; v2_first < k1; v2_first += 16) {
                const int v2_last = min(v2_first + 16, (int)(k1));
                float8 acc_arg3_part = (float8)(0.0f);
                for (int v2 = v2_first; v2 < v2_last; ++v2) {
                    const float8 t0 = (*(__global const float8u*)(arg0 + ((k2*v0) + v1 + (k0*v2))));
                    const float8 t2 = (t0 + t1);
                    const float8 t3 = (t2 <= (float8)(0.0f) ? (float8)(0.0f) : t2);
                    acc_arg3_part = (acc_arg3_part + t3);
                }
                acc_arg3 = (acc_arg3 + acc_arg3_part);
            }
            const float8 r4 = acc_arg3;
            const float8 t5 = (r4 / (float8)(196.0f));
            *(__global float8u*)(arg2 + ((k0*v0) + v1)) = t5;
        }
    }
}
