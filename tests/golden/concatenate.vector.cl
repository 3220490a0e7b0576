#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_cat(__global const float *restrict arg0, __global float *restrict arg1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * 4;
    const int last = min(first + 4, 4);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        for (int v1 = 0; v1 < 16; v1 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + ((16*v0) + v1)));
            *(__global float8u*)(arg1 + ((29*v0) + v1)) = t0;
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float8 float8u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_cat(__global const float *restrict arg0, __global float *restrict arg1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * 4;
    const int last = min(first + 4, 4);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        for (int v1 = 0; v1 < 8; v1 += 8) {
            const float8 t0 = (*(__global const float8u*)(arg0 + ((8*v0) + v1)));
            const float8 t1 = sin(t0);
            *(__global float8u*)(arg1 + (16 + (29*v0) + v1)) = t1;
        }
    }
}

#pragma OPENCL FP_CONTRACT ON
typedef float4 float4u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pointwise_cat(__global const float *restrict arg0, __global float *restrict arg1)
{
    const size_t item0 = get_global_id(0);
    const int first = (int)item0 * 4;
    const int last = min(first + 4, 4);
    for (int tile = first; tile < last; ++tile) {
        const int v0 = tile;
        for (int v1 = 0; v1 <= 5 - 4; v1 += 4) {
            const float4 t0 = (*(__global const float4u*)(arg0 + ((5*v0) + v1)));
            *(__global float4u*)(arg1 + (24 + (29*v0) + v1)) = t0;
        }
        {  // overlaps the loop
            const int v1 = 5 - 4;
            const float4 t1 = (*(__global const float4u*)(arg0 + ((5*v0) + v1)));
            *(__global float4u*)(arg1 + (24 + (29*v0) + v1)) = t1;
        }
    }
}
