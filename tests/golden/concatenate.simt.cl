#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pointwise_cat(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < k0) {
        const int v0 = point / (16);
        const int v1 = point % (16);
        const float t0 = arg0[(16*v0) + v1];
        arg1[(29*v0) + v1] = t0;
    }
}

#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pointwise_cat(__global const float *restrict arg0, __global float *restrict arg1, const int k0)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < k0) {
        const int v0 = point / (8);
        const int v1 = point % (8);
        const float t0 = arg0[(8*v0) + v1];
        const float t1 = sin(t0);
        arg1[16 + (29*v0) + v1] = t1;
    }
}

#pragma OPENCL FP_CONTRACT ON

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void pointwise_cat(__global const float *restrict arg0, __global float *restrict arg1)
{
    const size_t item0 = get_global_id(0);
    const int point = item0;
    if (point < 20) {
        const int v0 = point / (5);
        const int v1 = point % (5);
        const float t0 = arg0[(5*v0) + v1];
        arg1[24 + (29*v0) + v1] = t0;
    }
}
