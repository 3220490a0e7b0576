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

int16 split_tile(__global const float *restrict a, const long lda, const long ska, const long rows, const long steps,
                 const int q, int *to, int16 most)
{
    for (int i = 8 * q / 3; i < 8 * (q + 1) / 3; ++i) {
        row_t first, second;
        if (i < rows && steps >= 32) {
            first = *(__global const row_u *)(a + i * lda);
            second = *(__global const row_u *)(a + i * lda + 16);
        } else
        {
            float row[32];
            for (int j = 0; j < 32; ++j)
                row[j] = i < rows && j < steps ? a[i * lda + j * ska] : 0.0f;
            first = *(row_u *)row;
            second = *(row_u *)(row + 16);
        }
        most = larger(larger(most, first), second);
        split_to(to + i * 16, 256, first, second);
    }
    return most;
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

// The parts of 16 columns and 32 steps of K of B, from `b` on, to memory `to`: piece `q` of it. Columns behind
// number `last` are copies of it; steps from `steps` on count as zero. Gives the larger numbers of `most`
// and these. `lines` is room for the numbers, step by step.
int16 split_columns(__global const float *restrict b, const long ldk, const long ldn, const long last, const long steps,
                    const int q, float *lines, int *to, int16 most)
{
    // The first 16 steps, the 16 behind, then four pairs of steps at a time.
    if (q < 2) {
        row_t r[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            __global const float *restrict x = b + min((long)i, last) * ldn + q * 16;
            __builtin_prefetch((const void *)(ulong)(x + 32));
            if (steps < 32) {
                float at_end[16];
                for (int j = 0; j < 16; ++j)
                    at_end[j] = q * 16 + j < steps ? x[j] : 0.0f;
                r[i] = *(row_u *)at_end;
                continue;
            }
            r[i] = *(__global const row_u *)x;
        }
        transpose(r);
        #pragma unroll
        for (int i = 0; i < 16; ++i)
            *(row_t *)(lines + q * 256 + i * 16) = r[i];
        return most;
    }
    for (int pair = 4 * q - 8; pair < 4 * q - 4; ++pair) {
        const row_t upper = *(row_t *)(lines + pair * 16), lower = *(row_t *)(lines + 256 + pair * 16);
        most = larger(larger(most, upper), lower);
        split_to(to + pair * 16, 512, upper, lower);
    }
    return most;
}

// What the matrix unit would put into `out`, for any numbers: columns n_begin to n_end of a block.
void multiply(__global const float *a, const long lda, const long ska, const long M, const long m0,
              __global const float *b, const long ldk, const long ldn, const long n_end, const long n_begin,
              const long k_begin, const long k_end, float *out)
{
    for (int row = 0; row < 32; ++row) {
        __global const float *restrict x = a + min(m0 + row, M - 1) * lda;
        for (long n = n_begin; n < n_end; ++n) {
            float sum = 0.0f;
            for (long k = k_begin; k < k_end; ++k)
                sum += x[k * ska] * b[k * ldk + n * ldn];
            const int column = (int)(n - n_begin);
            out[(row / 16 * 2 + column / 16) * 256 + row % 16 * 16 + column % 16] = sum;
        }
    }
}

// A work-item splits 320 columns of B into parts, 224 of K at a time, which stay in its core's
// cache while up to 16 blocks of 32 rows are multiplied by them.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void matrix_gemm_addmm_relu(__global const float *restrict arg0, __global const float *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0, const int k1, const int k2)
{
    const size_t item0 = get_global_id(0);
    const size_t item1 = get_global_id(1);
    const size_t item2 = get_global_id(2);
    const long M = k0, N = 600, K = 200;
    const long panel = item0, n0 = panel * 320;
    int parts[21504] __attribute__((aligned(64))); // of two blocks: [row half][step][part][16][pair]
    __global const float *restrict a = arg0;
    const long lda = k1, ska = 1;
    const long ldk = 1, ldn = k1;
    __global const float *restrict b = arg1 + n0 * ldn;
    // Groups of 32 columns.
    const int groups = (int)min(10L, (N - n0 + 31) / 32);
    const long blocks = (M + 31) / 32;
    const long first = (long)item1 * 16, last = min(first + 16, blocks);
    int columns[107520] __attribute__((aligned(64))); // [group][step][part][half][pair][16]
    int top[10]; // the largest number of each group
    float out[2048] __attribute__((aligned(64))); // of two turns: [row half][column half][16][16]
    // For numbers whose rows and columns change places: [row or column half][half][16][16].
    float column_lines[1024] __attribute__((aligned(64)));
    const tile_shapes_t shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    const long line = 64;
    __asm__ volatile("ldtilecfg %0" :: "m"(shapes) : "memory");
    const int kb = 0, depth = 200;
    const int steps = (depth + 31) / 32;
    // One turn for each block and group. While the unit multiplies, vectors split what comes next and put
    // away the sums of the turn before; after the last turn only the latter is left.
    //
    // Two blocks go through the groups together at first, while the next group's columns are split: the 16
    // of one half in each step. Then it is block by block, and rows of the next one are split.
    const int together = (int)min(last - first, 2L), turns_together = together * groups;
    const int turns = (int)(last - first) * groups;
    long block_before = first;
    int g_before = 0;
    int16 column_most = (int16)(0), row_most[2];
    for (int turn = -together; turn <= turns; ++turn) {
        const int at_first = turn < turns_together, begun = turn >= 0 && turn < turns;
        const int of_two = (turn + together) % together;
        const int g = at_first ? (turn + together) / together - 1 : turn % groups;
        const long block = first + (at_first ? of_two : turn / groups);
        // The rows to split, from which half on, and how many halves further the next ones are.
        const long coming = !at_first ? block + 1 : turn == turns_together - 1 ? first + 2 : turn == -1 || turn == 0 ? first + turn + 1 : last;
        const int side_first = at_first ? 0 : g, sides = at_first ? 1 : groups;
        int *const next = parts + (coming - first) % 2 * 10752;
        const int *const rows = parts + (block - first) % 2 * 10752;
        const int by_unit = begun && in_range(largest(row_most[(block - first) % 2]), top[g]);
        int16 most = side_first == 0 ? (int16)(0) : row_most[(coming - first) % 2];
        float *const sums = out + (turn & 1) * 1024;
        const float *const before = out + (~turn & 1) * 1024;
        int row = turn > 0 ? 0 : 32, due = 0;
        if (by_unit) {
            __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
        }
        for (int piece = 0; piece < steps * 6; ++piece) {
            const int s = piece / 6, q = piece % 6;
            const long k = kb + s * 32;
            if (by_unit) {
                const int *const at = rows + s * 768, *const by = columns + (g * 7 + s) * 1536;
                switch (q) {
                case 0:
                    __asm__ volatile(
                        "tileloadd 2048(%0,%3,1), %%tmm4\n\t"
                        "tileloadd 2048(%1,%3,1), %%tmm5\n\t"
                        "tileloadd 0(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 1024(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 5376), "r"(by), "r"(line) : "memory");
                    break;
                case 1:
                    __asm__ volatile(
                        "tileloadd 1024(%0,%3,1), %%tmm4\n\t"
                        "tileloadd 1024(%1,%3,1), %%tmm5\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 5376), "r"(by), "r"(line) : "memory");
                    break;
                case 2:
                    __asm__ volatile(
                        "tileloadd 2048(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 3072(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 5376), "r"(by), "r"(line) : "memory");
                    break;
                case 3:
                    __asm__ volatile(
                        "tileloadd 0(%0,%3,1), %%tmm4\n\t"
                        "tileloadd 0(%1,%3,1), %%tmm5\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 5376), "r"(by), "r"(line) : "memory");
                    break;
                case 4:
                    __asm__ volatile(
                        "tileloadd 4096(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 5120(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 5376), "r"(by), "r"(line) : "memory");
                    break;
                case 5:
                    __asm__ volatile(
                        "tileloadd 0(%2,%3,1), %%tmm6\n\t"
                        "tileloadd 1024(%2,%3,1), %%tmm7\n\t"
                        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                        "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                        "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                        :: "r"(at), "r"(at + 5376), "r"(by), "r"(line) : "memory");
                    break;
                }
            }
            if (at_first && g + 1 < groups)
                for (int side = of_two; side < 2; side += together) {
                    const long n = (g + 1) * 32 + side * 16;
                    column_most = split_columns(b + n * ldn + k * ldk, ldk, ldn, N - 1 - n0 - n, K - k, q,
                                                column_lines + side * 512, columns + ((g + 1) * 7 + s) * 1536 + side * 256, column_most);
                }
            if (coming < last)
                for (int side = side_first; side < 2; side += sides) {
                    const long m = coming * 32 + side * 16;
                    most = split_tile(a + m * lda + k * ska, lda, ska, M - m, K - k, q,
                                      next + (side * 7 + s) * 768, most);
                }
            // The 32 rows of results, shared out evenly among the pieces.
            for (due += 32; due >= steps * 6 && row < 32; due -= steps * 6, ++row) {
                const long m = block_before * 32 + row;
                for (int c = 0; c < 32; c += 16) {
                    const int place = row / 16 * 512 + c / 16 * 256 + row % 16 * 16 + c % 16;
                    const float *const at = before + place;
                    const long n = n0 + g_before * 32 + c;
                    if (m >= M)
                        continue;
                    if (n + 16 <= N) {
                        const vec_t value = *(const vec_t *)at;
                        const int c0 = m;
                        const int c1 = n;
                        const float16 t2 = (*(__global const float16u*)(arg2 + (c1)));
                        const float16 t3 = (value + t2);
                        const float16 t4 = (t3 <= (float16)(0.0f) ? (float16)(0.0f) : t3);
                        *(__global float16u*)(arg3 + ((k2*c0) + c1)) = t4;
                    }
                    else for (int l = 0; l < min((long)16, N - n); ++l) {
                        const long nl = n + l;
                        const float value = at[l];
                        const int c5 = m;
                        const int c6 = nl;
                        const float t7 = arg2[c6];
                        const float t8 = (value + t7);
                        const float t9 = (t8 <= 0.0f ? 0.0f : t8);
                        arg3[(k2*c5) + c6] = t9;
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
            multiply(a, lda, ska, M, block * 32, b, ldk, ldn, min((long)(g * 32 + 32), N - n0), g * 32, kb, kb + depth, sums);
        }
        if (coming < last && side_first < 2)
            row_most[(coming - first) % 2] = most;
        if (at_first && of_two == together - 1 && g + 1 < groups) {
            top[g + 1] = largest(column_most);
            column_most = (int16)(0);
        }
        block_before = block;
        g_before = g;
    }
    __asm__ volatile("tilerelease" ::: "memory");
}
