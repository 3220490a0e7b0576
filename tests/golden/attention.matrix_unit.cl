#pragma OPENCL FP_CONTRACT ON
typedef float16 float16u __attribute__((aligned(4)));
/* e^x for x <= 0, 1 ulp; 0 instead of subnormal results, which take CPUs a hundred cycles each. As exp_negative,
   with the bias of a result: at n = -127 its exponent is 0, and so is the factor. */
static inline __attribute__((always_inline)) float16 ocl_exp_negative_or_zero_float16(float16 x) {
  float16 y = x < (float16)(-88.0f) ? (float16)(-88.0f) : x;
  float16 m = y * 1.44269504f + 12583039.0f;
  float16 n = m - 12583039.0f;
  float16 r = y - n * 0x1.62e4p-1f;
  r = r - n * 0x1.7f7d1cp-20f;
  float16 p = ((((((1.381459879e-03f * r + 8.368716575e-03f) * r + 4.166838899e-02f) * r + 1.666652113e-01f) * r + 4.999999404e-01f) * r + 1.0f) * r + 1.0f);
  return p * as_float16(as_int16(m) << 23);
}

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

int16 split_keys(__global const float *restrict a, const long lda, const long ska, const long rows, const long steps,
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

int16 split_values(__global const float *restrict a, const long lda, const long ska, const long rows, const long steps,
                 const int q, float *lines, int *to, int16 most)
{
    // The first 16 steps, the 16 behind, then four rows at a time.
    if (q < 2) {
        float *const to_lines = lines + q * 256;
        __global const float *restrict x = a + q * 16 * ska;
        if (rows >= 16 && steps >= 32) {
            row_t r[16];
            #pragma unroll
            for (int i = 0; i < 16; ++i)
                r[i] = *(__global const row_u *)(x + i * ska);
            transpose(r);
            #pragma unroll
            for (int i = 0; i < 16; ++i)
                *(row_t *)(to_lines + i * 16) = r[i];
        } else {
            for (int i = 0; i < 16; ++i)
                for (int j = 0; j < 16; ++j)
                    to_lines[i * 16 + j] = i < rows && q * 16 + j < steps ? x[i * lda + j * ska] : 0.0f;
        }
        return most;
    }
    for (int i = 4 * q - 8; i < 4 * q - 4; ++i) {
        const row_t first = *(row_t *)(lines + i * 16), second = *(row_t *)(lines + 256 + i * 16);
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

// A work-item splits all keys and values of a head into parts, which stay in its core's cache, and takes
// up to 10 blocks of 32 queries, one to a lane, so that a row's maximum and sum need no exchange between
// lanes. It goes through the keys in blocks of 256.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void matrix_attention_scaled_dot_product_flash_attention_for_cpu(__global const float *restrict arg0, __global const float *restrict arg1, __global const float *restrict arg2, __global float *restrict arg3, const int k0, const int k1, const int k2, const int k3)
{
    const size_t item0 = get_global_id(0);
    const size_t item1 = get_global_id(1);
    const long M = k0, N = k0;
    const long batch = item1;
    long bi_rest = batch;
    const long bi1 = bi_rest % (long)(4);
    bi_rest /= (long)(4);
    const long bi0 = bi_rest;

    __global const float *restrict queries = arg0 + bi0 * (long)(k1) + bi1 * (long)(k2);
    __global const float *restrict keys_at = arg1 + bi0 * (long)(k1) + bi1 * (long)(k2);
    __global const float *restrict values_at = arg2 + bi0 * (long)(k1) + bi1 * (long)(k2);
    const long ldq = k3, sdq = 1;
    const long ldk = k3, sdk = 1;
    const long ldv = k3, sdv = 1;
    int key_parts[30720] __attribute__((aligned(64))); // [16 keys][step][part][16][pair]
    int value_parts[30720] __attribute__((aligned(64))); // [16 columns][step of 32 keys][part][16][pair]
    int query_parts[3072] __attribute__((aligned(64))); // [step][part][half][pair][16]
    int weight_parts[12288] __attribute__((aligned(64))); // [step of 32 keys][part][half][pair][16]
    float lines[512] __attribute__((aligned(64))); // for tiles whose rows and columns change places
    int16 most = (int16)(0);
    for (int t = 0; t < 20; ++t)
        for (int s = 0; s < 2; ++s)
            for (int piece = 0; piece < 6; ++piece)
                most = split_keys(keys_at + t * 16 * ldk + s * 32 * sdk, ldk, sdk, N - t * 16, 32, piece,
                                  key_parts + (t * 2 + s) * 768, most);
    const int key_top = largest(most);
    most = (int16)(0);
    for (int t = 0; t < 4; ++t)
        for (int s = 0; s < 10; ++s)
            for (int piece = 0; piece < 6; ++piece)
                most = split_values(values_at + t * 16 * sdv + s * 32 * ldv, sdv, ldv, 16, N - s * 32, piece,
                                    lines, value_parts + (t * 10 + s) * 768, most);
    // No weight is above 1.
    const int values_by_unit = in_range(largest(most), 0x3f800000);
    vec_t q[128], e[512], out[128], sums[64];
    vec_t top[2], total[2], fade[2];
    const tile_shapes_t shapes = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    const long line = 64;
    __asm__ volatile("ldtilecfg %0" :: "m"(shapes) : "memory");
    const long blocks = (M + 31) / 32, last = min((long)(item0 + 1) * 10, blocks);
    for (long block = item0 * 10; block < last; ++block) {
        const long first = block * 32;
        // Lanes past the last query repeat it, and are not stored.
        for (int j = 0; j < 2; ++j) {
            int d = 0;
            for (; d + 16 <= 64; d += 16) {
                vec_t tile[16];
                for (int l = 0; l < 16; ++l)
                    tile[l] = *(__global const vec_u *)(queries + min(first + j * 16 + l, M - 1) * ldq + d);
                transpose(tile);
                for (int l = 0; l < 16; ++l)
                    q[(d + l) * 2 + j] = tile[l] * 0.125f;
            }
        }
        most = (int16)(0);
        for (int s = 0; s < 2; ++s)
            for (int j = 0; j < 2; ++j)
                for (int i = 0; i < 16; ++i) {
                    const vec_t upper = q[(s * 32 + i) * 2 + j], lower = q[(s * 32 + 16 + i) * 2 + j];
                    most = larger(larger(most, upper), lower);
                    split_to(query_parts + s * 1536 + j * 256 + i * 16, 512, upper, lower);
                }
        const int scores_by_unit = in_range(key_top, largest(most));
        for (int d = 0; d < 128; ++d)
            out[d] = (vec_t)(0);
        for (int j = 0; j < 2; ++j) {
            top[j] = (vec_t)(-INFINITY);
            total[j] = (vec_t)(0);
        }
        // No query of this work-item sees a later key.
        const long end = min(N, first + 32);
        for (long begin = 0; begin < end; begin += 256) {
            const int keys = (int)min((long)256, end - begin), steps = (keys + 31) / 32;
            vec_t above[2], shift[2], sum[2];
            for (int j = 0; j < 2; ++j)
                above[j] = top[j];
            // While the unit multiplies by 32 keys, vectors mask the scores before.
            for (int s = 0; s <= steps; ++s) {
                const int by_unit = scores_by_unit && s < steps;
                if (by_unit) {
                    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
                } else if (s < steps) {
                    for (int k = s * 32; k < s * 32 + 32; ++k)
                        for (int j = 0; j < 2; ++j) {
                            __global const float *const key = keys_at + min(begin + k, N - 1) * ldk;
                            vec_t sum_of = (vec_t)(0);
                            for (int d = 0; d < 64; ++d)
                                sum_of += key[d * sdk] * q[d * 2 + j];
                            e[(k / 16 * 2 + j) * 16 + k % 16] = sum_of;
                        }
                }
                for (int piece = 0; piece < 12; ++piece) {
                    if (by_unit) {
                        const int d = piece / 6;
                        const int *const at = key_parts + ((begin / 16 + s * 2) * 2 + d) * 768;
                        switch (piece % 6) {
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
                                :: "r"(at), "r"(at + 1536), "r"(query_parts + d * 1536), "r"(line) : "memory");
                            break;
                        case 1:
                            __asm__ volatile(
                                "tileloadd 1024(%0,%3,1), %%tmm4\n\t"
                                "tileloadd 1024(%1,%3,1), %%tmm5\n\t"
                                "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                :: "r"(at), "r"(at + 1536), "r"(query_parts + d * 1536), "r"(line) : "memory");
                            break;
                        case 2:
                            __asm__ volatile(
                                "tileloadd 2048(%2,%3,1), %%tmm6\n\t"
                                "tileloadd 3072(%2,%3,1), %%tmm7\n\t"
                                "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                :: "r"(at), "r"(at + 1536), "r"(query_parts + d * 1536), "r"(line) : "memory");
                            break;
                        case 3:
                            __asm__ volatile(
                                "tileloadd 0(%0,%3,1), %%tmm4\n\t"
                                "tileloadd 0(%1,%3,1), %%tmm5\n\t"
                                "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                :: "r"(at), "r"(at + 1536), "r"(query_parts + d * 1536), "r"(line) : "memory");
                            break;
                        case 4:
                            __asm__ volatile(
                                "tileloadd 4096(%2,%3,1), %%tmm6\n\t"
                                "tileloadd 5120(%2,%3,1), %%tmm7\n\t"
                                "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                :: "r"(at), "r"(at + 1536), "r"(query_parts + d * 1536), "r"(line) : "memory");
                            break;
                        case 5:
                            __asm__ volatile(
                                "tileloadd 0(%2,%3,1), %%tmm6\n\t"
                                "tileloadd 1024(%2,%3,1), %%tmm7\n\t"
                                "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                :: "r"(at), "r"(at + 1536), "r"(query_parts + d * 1536), "r"(line) : "memory");
                            break;
                        }
                    }
                    if (s > 0) {
                        const int low = s * 32 - 32 + piece * 32 / 12, high = s * 32 - 32 + (piece + 1) * 32 / 12;
                        for (int j = 0; j < 2; ++j) {
                            vec_t most_of = above[j];
                            for (int k = low; k < min(high, keys); ++k) {
                                vec_t score = e[(k / 16 * 2 + j) * 16 + k % 16];
                                const int16 ahead = (int16)((int)(begin + k - first) - j * 16) - ((int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
                                score = ahead > 0 ? (vec_t)(-INFINITY) : score;
                                e[(k / 16 * 2 + j) * 16 + k % 16] = score;
                                most_of = score > most_of ? score : most_of;
                            }
                            above[j] = most_of;
                        }
                    }
                }
                if (by_unit) {
                    __asm__ volatile(
                        "tilestored %%tmm0, 0(%0,%1,1)\n\t"
                        "tilestored %%tmm1, 1024(%0,%1,1)\n\t"
                        "tilestored %%tmm2, 2048(%0,%1,1)\n\t"
                        "tilestored %%tmm3, 3072(%0,%1,1)\n\t"
                        :: "r"(e + s * 64), "r"(line) : "memory");
                }
            }
            for (int j = 0; j < 2; ++j) {
                // 0 stands in for -inf where nothing was seen, so that exp() gives 0 and not NaN.
                shift[j] = above[j] == (vec_t)(-INFINITY) ? (vec_t)(0) : above[j];
                fade[j] = ocl_exp_negative_or_zero_float16(top[j] - shift[j]);
                top[j] = above[j];
                sum[j] = (vec_t)(0);
            }
            for (int t = 0; t < 4; t += 2) {
                if (values_by_unit) {
                    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
                }
                // While the unit multiplies by the weights of 32 keys, vectors make those of the next.
                for (int s = t == 0 ? 0 : 1; s <= steps; ++s)
                    for (int piece = 0; piece < 6; ++piece) {
                        if (s > 0 && values_by_unit) {
                            const int *const at = value_parts + (t * 10 + begin / 32 + s - 1) * 768;
                            switch (piece) {
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
                                    :: "r"(at), "r"(at + 7680), "r"(weight_parts + (s - 1) * 1536), "r"(line) : "memory");
                                break;
                            case 1:
                                __asm__ volatile(
                                    "tileloadd 1024(%0,%3,1), %%tmm4\n\t"
                                    "tileloadd 1024(%1,%3,1), %%tmm5\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                    :: "r"(at), "r"(at + 7680), "r"(weight_parts + (s - 1) * 1536), "r"(line) : "memory");
                                break;
                            case 2:
                                __asm__ volatile(
                                    "tileloadd 2048(%2,%3,1), %%tmm6\n\t"
                                    "tileloadd 3072(%2,%3,1), %%tmm7\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                    :: "r"(at), "r"(at + 7680), "r"(weight_parts + (s - 1) * 1536), "r"(line) : "memory");
                                break;
                            case 3:
                                __asm__ volatile(
                                    "tileloadd 0(%0,%3,1), %%tmm4\n\t"
                                    "tileloadd 0(%1,%3,1), %%tmm5\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                    :: "r"(at), "r"(at + 7680), "r"(weight_parts + (s - 1) * 1536), "r"(line) : "memory");
                                break;
                            case 4:
                                __asm__ volatile(
                                    "tileloadd 4096(%2,%3,1), %%tmm6\n\t"
                                    "tileloadd 5120(%2,%3,1), %%tmm7\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                    :: "r"(at), "r"(at + 7680), "r"(weight_parts + (s - 1) * 1536), "r"(line) : "memory");
                                break;
                            case 5:
                                __asm__ volatile(
                                    "tileloadd 0(%2,%3,1), %%tmm6\n\t"
                                    "tileloadd 1024(%2,%3,1), %%tmm7\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                                    "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\t"
                                    "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n\t"
                                    :: "r"(at), "r"(at + 7680), "r"(weight_parts + (s - 1) * 1536), "r"(line) : "memory");
                                break;
                            }
                        }
                        if (t > 0 || s == steps)
                            continue;
                        for (int i = 8 * piece / 3; i < 8 * (piece + 1) / 3; ++i)
                            for (int j = 0; j < 2; ++j) {
                                vec_t *const upper = e + ((s * 4 + j) * 16 + i), *const lower = upper + 32;
                                *upper = s * 32 + i < keys ? ocl_exp_negative_or_zero_float16(*upper - shift[j]) : (vec_t)(0);
                                *lower = s * 32 + 16 + i < keys ? ocl_exp_negative_or_zero_float16(*lower - shift[j]) : (vec_t)(0);
                                sum[j] += *upper + *lower;
                                split_to(weight_parts + s * 1536 + j * 256 + i * 16, 512, *upper, *lower);
                            }
                    }
                if (values_by_unit) {
                    __asm__ volatile(
                        "tilestored %%tmm0, 0(%0,%1,1)\n\t"
                        "tilestored %%tmm1, 1024(%0,%1,1)\n\t"
                        "tilestored %%tmm2, 2048(%0,%1,1)\n\t"
                        "tilestored %%tmm3, 3072(%0,%1,1)\n\t"
                        :: "r"(sums), "r"(line) : "memory");
                } else {
                    for (int d = 0; d < 32; ++d)
                        for (int j = 0; j < 2; ++j) {
                            vec_t sum_of = (vec_t)(0);
                            for (int k = 0; k < keys; ++k)
                                sum_of += values_at[(begin + k) * ldv + (t * 16 + d) * sdv] * e[(k / 16 * 2 + j) * 16 + k % 16];
                            sums[(d / 16 * 2 + j) * 16 + d % 16] = sum_of;
                        }
                }
                for (int d = 0; d < 32; ++d)
                    for (int j = 0; j < 2; ++j) {
                        const int at = (t * 16 + d) * 2 + j;
                        out[at] = out[at] * fade[j] + sums[(d / 16 * 2 + j) * 16 + d % 16];
                    }
            }
            for (int j = 0; j < 2; ++j)
                total[j] = total[j] * fade[j] + sum[j];
        }
        for (int j = 0; j < 2; ++j) {
            const vec_t divisor = total[j] == (vec_t)(0) ? (vec_t)(1) : total[j];
            const long m0 = first + j * 16;
            const int count = (int)min((long)16, M - m0);
            int n = 0;
            for (; n + 16 <= 64; n += 16) {
                vec_t tile[16];
                for (int l = 0; l < 16; ++l)
                    tile[l] = out[(n + l) * 2 + j] / divisor;
                transpose(tile);
                for (int i = 0; i < count; ++i) {
                    const long m = m0 + i;
                    const vec_t value = tile[i];
                    const int c0 = bi0;
                    const int c1 = bi1;
                    const int c2 = m;
                    const int c3 = n;
                    *(__global float16u*)(arg3 + ((k1*c0) + (k2*c1) + (k3*c2) + c3)) = value;
                }
            }
        }
    }
    __asm__ volatile("tilerelease" ::: "memory");
}
