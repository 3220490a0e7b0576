#pragma OPENCL FP_CONTRACT ON
typedef float16 float16u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_convolution(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1, const int k2, const int k3, const int k4)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * (int)(k0);
    const int last = min(first + (int)(k0), (int)(k1));
    int v0 = first / (k2);
    int v1 = (first) % (k2);
    for (int tile = first; tile < last; ++tile) {
        for (int v2 = 0; v2 < k3; v2 += 16) {
            const int i0 = (k4*v0) + v1 + (k2*v2);
            const float16 t1 = (float16)(arg0[i0], arg0[i0 + 3136], arg0[i0 + 6272], arg0[i0 + 9408], arg0[i0 + 12544], arg0[i0 + 15680], arg0[i0 + 18816], arg0[i0 + 21952], arg0[i0 + 25088], arg0[i0 + 28224], arg0[i0 + 31360], arg0[i0 + 34496], arg0[i0 + 37632], arg0[i0 + 40768], arg0[i0 + 43904], arg0[i0 + 47040]);
            *(__global float16u*)(arg1 + ((k4*v0) + (k3*v1) + v2)) = t1;
        }
        if (++v1 == k2) {
            v1 = 0;
            ++v0;
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef int16 int16u __attribute__((aligned(4)));
typedef struct {
    uchar palette, start_row, reserved[14]; ushort row_bytes[16]; uchar rows[16];
} __attribute__((packed, aligned(64))) tile_shapes_t;
typedef float16 row_t;
typedef float16 __attribute__((aligned(4))) row_u;
// The parts of 16 pairs of numbers to memory, `step` words apart, largest first: each takes the
// leading bits of what the ones before leave.
inline void split_to(int *at, const int step, const row_t first, const row_t second)
{
    row_t x = first, y = second;
    #pragma unroll
    for (int p = 0; p < 3; ++p) {
        const int16 a = as_int16(x) & (int)0xffff0000, b = as_int16(y) & (int)0xffff0000;
        *(int16 *)(at + p * step) = as_int16(as_uint16(a) >> 16) | b;
        x -= as_float16(a);
        y -= as_float16(b);
    }
}

// The larger of `most` and the numbers without their signs, as integers: those have the same order.
inline int16 larger(const int16 most, const row_t x)
{
    return max(most, as_int16(x) & 0x7fffffff);
}

inline int largest(const int16 x)
{
    const int8 a = max(x.lo, x.hi);
    const int4 b = max(a.lo, a.hi);
    return max(max(b.x, b.y), max(b.z, b.w));
}

// A work-item writes the parts of 16 pixels of a plane, and the largest of their numbers.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void matrix_conv_parts_convolution(__global const float *restrict arg0, __global int *restrict arg1, const int k0, const int k1, const int k2, const int k3, const int k4)
{
    const size_t item0 = get_global_id(0);
    const size_t item1 = get_global_id(1);
    const size_t item2 = get_global_id(2);
    const long tile = item0, plane = item1, image = item2;
    __global const float *restrict x = arg0 + (long)(0) + image * (long)(k0);
    const int phases[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    // Pixels that lie in the padding, or behind the plane, are zero.
    long from[16];
    int inside[16];
    for (int i = 0; i < 16; ++i) {
        long c_rest = tile * 16 + i;
        const long c1 = c_rest % (long)(29);
        c_rest /= (long)(29);
        const long c0 = c_rest;

        inside[i] = 1;
        from[i] = 0;
        const long u0 = c0 * 2 + phases[plane][0] - 1;
        inside[i] &= u0 >= 0 & u0 < 56;
        from[i] += u0 * k1;
        const long u1 = c1 * 2 + phases[plane][1] - 1;
        inside[i] &= u1 >= 0 & u1 < 56;
        from[i] += u1 * k2;
    }
    int16 most = (int16)(0);
    for (int s = 0; s < 4; ++s) {
        int parts[768] __attribute__((aligned(64)));
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            row_t first = (row_t)(0), second = (row_t)(0);
            if (inside[i]) {
                first = *(__global const row_u *)(x + from[i] + s * 32);
                second = *(__global const row_u *)(x + from[i] + s * 32 + 16);
            }
            most = larger(larger(most, first), second);
            split_to(parts + i * 16, 256, first, second);
        }
        for (int part = 0; part < 3; ++part)
            for (int i = 0; i < 256; i += 16) {
                const long word = (s * 3 + part) * 13824 + tile * 256 + i;
                const int16 value = *(int16 *)(parts + part * 256 + i);
                const int c0 = image;
                const int c1 = plane;
                const int c2 = word;
                *(__global int16u*)(arg1 + ((k3*c0) + (k4*c1) + c2)) = value;
            }
    }
    const long word = 165888 + tile * 16;
    const int16 value = most;
    const int c3 = image;
    const int c4 = plane;
    const int c5 = word;
    *(__global int16u*)(arg1 + ((k3*c3) + (k4*c4) + c5)) = value;
}

#pragma OPENCL FP_CONTRACT ON
typedef float16 float16u __attribute__((aligned(4)));
typedef float16 vec_t;
typedef float16 __attribute__((aligned(4))) vec_u;
typedef struct {
    uchar palette, start_row, reserved[14]; ushort row_bytes[16]; uchar rows[16];
} __attribute__((packed, aligned(64))) tile_shapes_t;
typedef float16 row_t;
typedef float16 __attribute__((aligned(4))) row_u;
// The parts of 16 pairs of numbers to memory, `step` words apart, largest first: each takes the
// leading bits of what the ones before leave.
inline void split_to(int *at, const int step, const row_t first, const row_t second)
{
    row_t x = first, y = second;
    #pragma unroll
    for (int p = 0; p < 3; ++p) {
        const int16 a = as_int16(x) & (int)0xffff0000, b = as_int16(y) & (int)0xffff0000;
        *(int16 *)(at + p * step) = as_int16(as_uint16(a) >> 16) | b;
        x -= as_float16(a);
        y -= as_float16(b);
    }
}

// The larger of `most` and the numbers without their signs, as integers: those have the same order.
inline int16 larger(const int16 most, const row_t x)
{
    return max(most, as_int16(x) & 0x7fffffff);
}

inline int largest(const int16 x)
{
    const int8 a = max(x.lo, x.hi);
    const int4 b = max(a.lo, a.hi);
    return max(max(b.x, b.y), max(b.z, b.w));
}

inline void transpose(row_t *r)
{
    #pragma unroll
    for (int round = 0; round < 4; ++round) {
        row_t s[16];
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            s[2 * i] = __builtin_shufflevector(r[i], r[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        #pragma unroll
        for (int i = 0; i < 16; ++i)
            r[i] = s[i];
    }
}

// Whether the matrix unit may multiply numbers up to x by numbers up to y, both given as bits: it takes
// what is below 2^-126 for 0, and infinity times a part that is 0 is NaN.
inline bool in_range(const int x, const int y)
{
    const int ex = x >> 23, ey = y >> 23;
    if (x == 0 || y == 0)
        return max(ex, ey) < 255;
    return max(ex, ey) < 255 && min(ex, ey) > 60 && ex + ey > 180;
}

// What the matrix unit would put into `out` for the positions from `begin` on, for any numbers: sums
// over channels c_begin to c_end, of columns below n_end.
void multiply(__global const float *x, const long xs0, const long xs1, __global const float *w, const long begin,
              const int n_end, const int c_begin, const int c_end, float *out)
{
    for (int row = 0; row < 32; ++row) {
        long o_rest = begin + row;
        const long o1 = o_rest % (long)(29);
        o_rest /= (long)(29);
        const long o0 = o_rest;

        const int used = (o0 < 28) & (o1 < 28);
        for (int n = 0; n < n_end; ++n) {
            float sum = 0.0f;
            int tap = 0;
            for (int t0 = 0; t0 < 3; ++t0)
            for (int t1 = 0; t1 < 3; ++t1)
            {
                const long u0 = o0 * 2 + t0 * 1 - 1;
                const long u1 = o1 * 2 + t1 * 1 - 1;
                if (used & (u0 >= 0) & (u0 < 56) & (u1 >= 0) & (u1 < 56))
                    for (int c = c_begin; c < c_end; ++c)
                        sum += x[c + u0 * xs0 + u1 * xs1] * w[((long)n * 128 + c) * 9 + tap];
                ++tap;
            }
            out[(row / 16 * 2 + n / 16) * 256 + row % 16 * 16 + n % 16] = sum;
        }
    }
}

// A work-item splits the weights of 96 output channels into parts, those of 128 input channels at
// a time, which stay in its core's cache while up to 52 blocks of 32 positions are multiplied by them.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void matrix_conv_convolution_relu(__global const int *restrict arg0, __global const float *restrict arg1, __global const float *restrict arg2, __global const float *restrict arg3, __global float *restrict arg4, const int k0, const int k1, const int k2, const int k3, const int k4)
{
    const size_t item0 = get_global_id(0);
    const size_t item1 = get_global_id(1);
    const int n0 = (int)item0 * 96;
    const int groups = min(3, (192 - n0 + 31) / 32); // of 32 columns
    const long blocks = (long)(4) * 26;
    const long first = (long)item1 * 52, last = min(first + 52, blocks);
    __global const float *restrict w = arg1 + (long)(0) + (long)n0 * 1152;
    // From a position to where a tap finds its pixel.
    const long tap_at[9] = {0, 166752, 16, 333504, 500256, 333520, 464, 167216, 480};
    int columns[165888] __attribute__((aligned(64))); // [group][step][tap][part][half][pair][16]
    int top[3]; // the largest number of each group
    float out[2048] __attribute__((aligned(64))); // of two turns: [row half][column half][16][16]
    const tile_shapes_t shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    const long line = 64;
    __asm__ volatile("ldtilecfg %0" :: "m"(shapes) : "memory");
    const int step_first = 0, depth = 4;
    for (int g = 0; g < groups; ++g) {
        int16 most = (int16)(0);
        for (int s = 0; s < depth; ++s)
            for (int side = 0; side < 2; ++side) {
                const int n = g * 32 + side * 16;
                __global const float *const from = w + (step_first + s) * 288;
                int *const to = columns + (g * 4 + s) * 13824 + side * 256;
                // 16 channels' taps, and those of the 16 channels behind: a vector of 9 at a time.
                for (int v = 0; v < 9; ++v) {
                    row_t upper[16], lower[16];
                    #pragma unroll
                    for (int i = 0; i < 16; ++i) {
                        __global const float *const at = from + (long)min(n + i, 191 - n0) * 1152 + v * 16;
                        __builtin_prefetch((const void *)(ulong)(at + 288));
                        __builtin_prefetch((const void *)(ulong)(at + 432));
                        upper[i] = *(__global const row_u *)at;
                        lower[i] = *(__global const row_u *)(at + 144);
                    }
                    transpose(upper);
                    transpose(lower);
                    #pragma unroll
                    for (int i = 0; i < 16; ++i) {
                        const int channel = (v * 16 + i) / 9, tap = (v * 16 + i) % 9;
                        most = larger(larger(most, upper[i]), lower[i]);
                        split_to(to + tap * 1536 + channel * 16, 512, upper[i], lower[i]);
                    }
                }
            }
        top[g] = largest(most);
    }
    // One turn for each block and group. While the unit multiplies, vectors put away the sums of the turn
    // before; after the last turn only that is left.
    const int turns = (int)(last - first) * groups, rows_a_step = (31 + depth * 9) / (depth * 9);
    int row_top = 0;
    for (int turn = 0; turn <= turns; ++turn) {
        const long block = first + turn / groups;
        const int g = turn % groups, begun = turn < turns;
        const long image = block / 26, begin = block % 26 * 32;
        __global const int *const pixels = arg0 + image * 667008;
        if (begun && g == 0) {
            int16 most = (int16)(0);
            for (int plane = 0; plane < 4; ++plane)
                for (int i = 0; i < 4; ++i)
                    most = max(most, as_int16(*(__global const row_u *)(pixels + plane * 166752 + 165888 + begin + i * 16)));
            row_top = largest(most);
        }
        const int by_unit = begun && in_range(row_top, top[g]);
        float *const sums = out + turn % 2 * 1024;
        const float *const before = out + (turn + 1) % 2 * 1024;
        const long block_before = first + (turn - 1) / groups;
        const int g_before = (turn - 1) % groups;
        const long image_before = block_before / 26, begin_before = block_before % 26 * 32;
        if (by_unit) {
            __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
        }
        int row = turn > 0 ? 0 : 32;
        for (int s = 0; s < depth; ++s)
            for (int tap = 0; tap < 9; ++tap) {
                if (by_unit) {
                    __global const int *const at = pixels + (step_first + s) * 41472 + begin * 16 + tap_at[tap];
                    const int *const by = columns + ((g * 4 + s) * 9 + tap) * 1536;
                    __asm__ volatile(
                        "tileloadd 110592(%0,%3,1), %%tmm4\n\t"
                        "tileloadd 110592(%1,%3,1), %%tmm5\n\t"
                        "tileloadd 0(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 1024(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 256), "r"(by), "r"(line) : "memory");
                    __asm__ volatile(
                        "tileloadd 55296(%0,%3,1), %%tmm4\n\t"
                        "tileloadd 55296(%1,%3,1), %%tmm5\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 256), "r"(by), "r"(line) : "memory");
                    __asm__ volatile(
                        "tileloadd 2048(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 3072(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 256), "r"(by), "r"(line) : "memory");
                    __asm__ volatile(
                        "tileloadd 0(%0,%3,1), %%tmm4\n\t"
                        "tileloadd 0(%1,%3,1), %%tmm5\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 256), "r"(by), "r"(line) : "memory");
                    __asm__ volatile(
                        "tileloadd 4096(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 5120(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 256), "r"(by), "r"(line) : "memory");
                    __asm__ volatile(
                        "tileloadd 0(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 1024(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 256), "r"(by), "r"(line) : "memory");
                }
                for (const int row_end = min(row + rows_a_step, 32); row < row_end; ++row) {
                    long o_rest = begin_before + row;
                    const long o1 = o_rest % (long)(29);
                    o_rest /= (long)(29);
                    const long o0 = o_rest;

                    const long image = image_before;
                    for (int c = 0; c < 32; c += 16) {
                        const int place = row / 16 * 512 + c / 16 * 256 + row % 16 * 16 + c % 16;
                        const float *const at = before + place;
                        const long oc = n0 + g_before * 32 + c;
                        // Positions between two rows of pixels.
                        if ((o0 >= 28) | (o1 >= 28))
                            continue;
                        {
                            const vec_t value = *(const vec_t *)at;
                            const int c0 = image;
                            const int c1 = o0;
                            const int c2 = o1;
                            const int c3 = oc;
                            const float16 t4 = (*(__global const float16u*)(arg3 + (c3)));
                            const float16 t5 = (value + t4);
                            const float16 t6 = (t5 <= (float16)(0.0f) ? (float16)(0.0f) : t5);
                            const int i7 = (k0*c0) + (28*c1) + c2 + (k1*c3);
                            const float16 x8 = t6;
                            arg4[i7] = x8.s0;
                            arg4[i7 + 784] = x8.s1;
                            arg4[i7 + 1568] = x8.s2;
                            arg4[i7 + 2352] = x8.s3;
                            arg4[i7 + 3136] = x8.s4;
                            arg4[i7 + 3920] = x8.s5;
                            arg4[i7 + 4704] = x8.s6;
                            arg4[i7 + 5488] = x8.s7;
                            arg4[i7 + 6272] = x8.s8;
                            arg4[i7 + 7056] = x8.s9;
                            arg4[i7 + 7840] = x8.sa;
                            arg4[i7 + 8624] = x8.sb;
                            arg4[i7 + 9408] = x8.sc;
                            arg4[i7 + 10192] = x8.sd;
                            arg4[i7 + 10976] = x8.se;
                            arg4[i7 + 11760] = x8.sf;
                        }
                    }
                }
            }
        if (by_unit) {
            __asm__ volatile(
                "tilestored %%tmm0, 0(%0,%1,1)\n\t"
                "tilestored %%tmm1, 1024(%0,%1,1)\n\t"
                "tilestored %%tmm2, 2048(%0,%1,1)\n\t"
                "tilestored %%tmm3, 3072(%0,%1,1)\n\t"
                :: "r"(sums), "r"(line) : "memory");
        } else if (begun) {
            multiply(arg2 + (long)(0) + image * (long)(k2),
k3, k4, w + (long)g * 36864, begin,
                     min(32, 192 - n0 - g * 32), step_first * 32, (step_first + depth) * 32, sums);
        }
    }
    __asm__ volatile("tilerelease" ::: "memory");
}
