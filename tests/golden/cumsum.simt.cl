#pragma OPENCL FP_CONTRACT ON
typedef float4 float4u __attribute__((aligned(4)));

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void scan_cumsum(__global const float *restrict arg0, __global float *restrict arg1, const int k0, const int k1)
{
    __local double totals[256];
    const int point = get_group_id(0);
    const int lid = get_local_id(0);
    int here = 0;
    {
        const int v0 = point;
        double carry = 0.0;
        for (int first = 0; first < k0; first += 128) {
            const int step = first + lid;
            const int v1 = step * 4;
            double4 own = (double4)(0.0);
            if (step < k0) {
                const float4 t0 = (*(__global const float4u*)(arg0 + ((k1*v0) + v1)));
                const double4 t1 = convert_double4(t0);
                own = t1;
            }
            own.s1 = (own.s0 + own.s1);
            own.s2 = (own.s1 + own.s2);
            own.s3 = (own.s2 + own.s3);
            double total = own.s3;
            here = 128 - here;
            totals[here + lid] = total;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int reach = 1; reach < 128; reach *= 2) {
                if (lid >= reach) {
                    const double below = totals[here + lid - reach];
                    total = (below + total);
                }
                here = 128 - here;
                totals[here + lid] = total;
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            double before = carry;
            if (lid > 0) {
                const double below = totals[here + lid - 1];
                before = (before + below);
            }
            const double whole = totals[here + 127];
            carry = (carry + whole);
            if (step < k0) {
                const double4 running = ((double4)(before) + own);
                *(__global float4u*)(arg1 + ((k1*v0) + v1)) = convert_float4(running);
            }
        }
    }
}
