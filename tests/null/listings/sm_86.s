.text.dot:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   S2R R4, SR_TID.X ;
        /*0020*/                   MOV R0, c[0x0][0x180] ;
        /*0030*/                   IMAD.MOV.U32 R5, RZ, RZ, RZ ;
        /*0040*/                   ULDC.64 UR6, c[0x0][0x118] ;
        /*0050*/                   S2R R3, SR_CTAID.X ;
        /*0060*/                   ISETP.GE.AND P0, PT, R0, 0x1, PT ;
        /*0070*/                   CS2R R10, SRZ ;
        /*0080*/                   MOV R0, RZ ;
        /*0090*/                   IMAD.MOV.U32 R13, RZ, RZ, RZ ;
        /*00a0*/                   IMAD.WIDE.U32 R2, R3, c[0x0][0x0], R4 ;
        /*00b0*/              @!P0 BRA `(.L_x_0) ;
        /*00c0*/                   IMAD R5, R3, c[0x0][0x178], RZ ;
        /*00d0*/                   LEA R12, P1, R4, c[0x0][0x168], 0x2 ;
        /*00e0*/                   IMAD.WIDE.U32 R6, R2.reuse, c[0x0][0x178], RZ ;
        /*00f0*/                   CS2R R10, SRZ ;
        /*0100*/                   MOV R13, RZ ;
        /*0110*/                   ULDC UR4, c[0x0][0x180] ;
        /*0120*/                   IMAD R5, R2, c[0x0][0x17c], R5 ;
        /*0130*/                   LEA R14, P0, R6, c[0x0][0x160], 0x4 ;
        /*0140*/                   IMAD.MOV.U32 R0, RZ, RZ, RZ ;
        /*0150*/                   LEA.HI.X R9, R4, c[0x0][0x16c], RZ, 0x2, P1 ;
        /*0160*/                   IADD3 R15, R7, R5, RZ ;
        /*0170*/                   LEA.HI.X R15, R6, c[0x0][0x164], R15, 0x4, P0 ;
.L_x_1:
        /*0180*/                   IMAD.MOV.U32 R8, RZ, RZ, R12 ;
        /*0190*/                   MOV R4, R14 ;
        /*01a0*/                   IMAD.MOV.U32 R5, RZ, RZ, R15 ;
        /*01b0*/                   LDG.E.CONSTANT R8, [R8.64] ;
        /*01c0*/                   LDG.E.128.CONSTANT R4, [R4.64] ;
        /*01d0*/                   UIADD3 UR4, UR4, -0x1, URZ ;
        /*01e0*/                   IADD3 R14, P2, R14, 0x10, RZ ;
        /*01f0*/                   IADD3 R12, P1, R12, 0x100, RZ ;
        /*0200*/                   ISETP.NE.AND P0, PT, RZ, UR4, PT ;
        /*0210*/                   IMAD.X R15, RZ, RZ, R15, P2 ;
        /*0220*/                   IADD3.X R9, RZ, R9, RZ, P1, !PT ;
        /*0230*/                   FFMA R0, R5, R8.reuse, R0 ;
        /*0240*/                   FFMA R11, R4, R8.reuse, R11 ;
        /*0250*/                   FFMA R13, R6, R8.reuse, R13 ;
        /*0260*/                   FFMA R10, R7, R8, R10 ;
        /*0270*/               @P0 BRA `(.L_x_1) ;
.L_x_0:
        /*0280*/                   FADD R0, R0, R11 ;
        /*0290*/                   LEA R4, P0, R2, c[0x0][0x170], 0x2 ;
        /*02a0*/                   FADD R13, R0, R13 ;
        /*02b0*/                   LEA.HI.X R5, R2, c[0x0][0x174], R3, 0x2, P0 ;
        /*02c0*/                   FADD R13, R13, R10 ;
        /*02d0*/                   STG.E [R4.64], R13 ;
.L_x_3:
        /*02e0*/                   EXIT ;
.L_x_2:
        /*02f0*/                   BRA `(.L_x_2);
        /*0300*/                   NOP;
        /*0310*/                   NOP;
        /*0320*/                   NOP;
        /*0330*/                   NOP;
        /*0340*/                   NOP;
        /*0350*/                   NOP;
        /*0360*/                   NOP;
        /*0370*/                   NOP;
.L_x_4:
