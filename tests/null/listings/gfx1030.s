dot:                                    ; @dot
; %bb.0:
	s_clause 0x2
	s_load_dwordx2 s[8:9], s[4:5], 0x50
	s_load_dword s2, s[4:5], 0x20
	s_load_dwordx2 s[0:1], s[4:5], 0x10
	v_lshl_or_b32 v1, s6, 6, v0
	s_waitcnt lgkmcnt(0)
	v_add_co_u32 v1, s3, s8, v1
	v_add_co_ci_u32_e64 v2, null, s9, 0, s3
	s_cmp_lt_i32 s2, 1
	s_cbranch_scc1 .LBB0_3
; %bb.1:
	s_clause 0x1
	s_load_dwordx2 s[8:9], s[4:5], 0x18
	s_load_dwordx4 s[4:7], s[4:5], 0x0
	v_lshlrev_b32_e32 v8, 2, v0
	v_mov_b32_e32 v0, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v7, 0
	s_waitcnt lgkmcnt(0)
	v_mul_lo_u32 v5, v2, s8
	v_mul_lo_u32 v6, v1, s9
	v_mad_u64_u32 v[3:4], null, v1, s8, 0
	v_add3_u32 v4, v4, v6, v5
	v_lshlrev_b64 v[5:6], 4, v[3:4]
	v_add_co_u32 v3, s3, s6, v8
	v_add_co_ci_u32_e64 v4, null, s7, 0, s3
	v_mov_b32_e32 v8, 0
	v_add_co_u32 v5, vcc_lo, s4, v5
	v_add_co_ci_u32_e32 v6, vcc_lo, s5, v6, vcc_lo
	.p2align	6
.LBB0_2:                                ; =>This Inner Loop Header: Depth=1
	global_load_dwordx4 v[10:13], v[5:6], off
	global_load_dword v14, v[3:4], off
	v_add_co_u32 v3, vcc_lo, 0x100, v3
	v_add_co_ci_u32_e32 v4, vcc_lo, 0, v4, vcc_lo
	v_add_co_u32 v5, vcc_lo, v5, 16
	v_add_co_ci_u32_e32 v6, vcc_lo, 0, v6, vcc_lo
	s_add_i32 s2, s2, -1
	s_cmp_eq_u32 s2, 0
	s_waitcnt vmcnt(0)
	v_fmac_f32_e32 v0, v10, v14
	v_fmac_f32_e32 v9, v11, v14
	v_fmac_f32_e32 v7, v12, v14
	v_fmac_f32_e32 v8, v13, v14
	s_cbranch_scc0 .LBB0_2
	s_branch .LBB0_4
.LBB0_3:
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v7, 0
	v_mov_b32_e32 v9, 0
	v_mov_b32_e32 v0, 0
.LBB0_4:
	v_add_f32_e32 v0, v0, v9
	v_add_f32_e32 v3, v7, v0
	v_lshlrev_b64 v[0:1], 2, v[1:2]
	v_add_f32_e32 v2, v8, v3
	v_add_co_u32 v0, vcc_lo, s0, v0
	v_add_co_ci_u32_e32 v1, vcc_lo, s1, v1, vcc_lo
	global_store_dword v[0:1], v2, off
	s_endpgm
; Occupancy: 16
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .sgpr_count:     12
    .sgpr_spill_count: 0
    .vgpr_count:     15
    .vgpr_spill_count: 0
