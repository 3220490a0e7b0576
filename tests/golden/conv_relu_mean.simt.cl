#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void prologue(__global const float *restrict arg0, __global float *restrict arg1, const long dim0, const long dim1, const long dim2, const long dim3, const long dim4)
{
    const long point = get_global_id(0);
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

#pragma OPENCL FP_CONTRACT ON
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void conv_convolution(__global const float *restrict arg0, __global const float *restrict arg1, __global float *restrict arg2, const int k0, const int k1, const int k2, const int k3, const int k4)
{
    const int lx = get_local_id(0), ly = get_local_id(1);
    const int lid = ly * 16 + lx;
    const int group = get_global_id(2);
    const int n0 = get_group_id(0) * 32;
    const long m0 = (long)get_group_id(1) * 64;
    const int I0 = 14, O0 = 14;
    const long xs0 = 14;
    const int I1 = 14, O1 = 14;
    const long xs1 = 1;
    const long pixels = (long)(2) * O0 * O1;
    const long xc = k0;
    __global const float *x = arg0 + (long)(0)
        + group * 16 * xc;
    __global const float *w = arg1 + (long)group * 4608;
    __local float la[16][65];
    __local float lb[16][33];
    // Where each row's window starts.
    __local long image[64];
    __local int start0[64];
    __local int start1[64];
    for (int i = lid; i < 64; i += 256) {
        const long m = min(m0 + i, pixels - 1);
        long q_rest = m;
        const long q2 = q_rest % (long)(14);
        q_rest /= (long)(14);
        const long q1 = q_rest % (long)(14);
        q_rest /= (long)(14);
        const long q0 = q_rest;

        image[i] = q0 * (long)(k1);
        start0[i] = (int)q1 * 1 - 1;
        start1[i] = (int)q2 * 1 - 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float c[4][2];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        #pragma unroll
        for (int j = 0; j < 2; ++j) c[i][j] = 0;
    }
    for (int k0 = 0; k0 < 144; k0 += 16) {
        for (int t = lid; t < 1024; t += 256) {
            const int i = t % 64, k = t / 64;
            const int channel = (k0 + k) % 16;
            int tap = (k0 + k) / 16;
            bool inside = m0 + i < pixels && k0 + k < 144;
            long offset = image[i] + channel * xc;
            {
                const int td = tap % 3;
                tap /= 3;
                const int at = start1[i] + td * 1;
                inside = inside && at >= 0 && at < I1;
                offset += at * xs1;
            }
            {
                const int td = tap % 3;
                tap /= 3;
                const int at = start0[i] + td * 1;
                inside = inside && at >= 0 && at < I0;
                offset += at * xs0;
            }
            la[k][i] = inside ? x[offset] : (float)0;
        }
        for (int t = lid; t < 512; t += 256) {
            const int j = t % 32, k = t / 32;
            const bool inside = n0 + j < 32 && k0 + k < 144;
            lb[k][j] = inside ? w[(long)(k0 + k) * 32 + n0 + j] : (float)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; ++k) {
            float av[4], bv[2];
            #pragma unroll
            for (int i = 0; i < 4; ++i) av[i] = la[k][ly + i * 16];
            #pragma unroll
            for (int j = 0; j < 2; ++j) bv[j] = lb[k][lx + j * 16];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                #pragma unroll
                for (int j = 0; j < 2; ++j) c[i][j] += av[i] * bv[j];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        const long m = m0 + ly + i * 16;
        if (m < pixels) {
            long q_rest = m;
            const long q2 = q_rest % (long)(14);
            q_rest /= (long)(14);
            const long q1 = q_rest % (long)(14);
            q_rest /= (long)(14);
            const long q0 = q_rest;

            const long pn = q0;
            const long p0 = q1, p1 = q2;
            #pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int n = n0 + lx + j * 16;
                if (n < 32) {
                    const long oc = group * 32 + n;
                    const float value = c[i][j];
                    const int c0 = pn;
                    const int c1 = p0;
                    const int c2 = p1;
                    const int c3 = oc;
                    arg2[(k2*c0) + (k3*c1) + (k4*c2) + c3] = value;
                }
            }
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
    const int across = lid % 16, down = lid / 16;
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
            const float4 t3 = (((t2 > (float4)(0.0f)) | (t2 != t2)) ? t2 : (float4)(0.0f));
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
