L0:
(W) mov (8|M0) r127.0<1>:ud 0x0:ud
(W) and (1|M0) r127.2<1>:ud r0.0<0;1,0>:ud 0xFFFFFFC0:ud
(W) and (1|M0) r127.0<1>:uw r0.4<0;1,0>:uw 0xFF:uw
(W) add (1|M0) r127.2<1>:ud r127.2<0;1,0>:ud 0x40:uw {I@2}
(W) mad (1|M0) r127.2<1>:ud r127.2<0;0>:ud r127.0<0;0>:uw 0xC0:uw {I@1}
(W) mov (8|M0) r7.0<1>:ud r1.0<1;1,0>:ud
(W) send.dc0 (8|M0) r1 r127 null:0 0x0 0x024844FD {A@1,$0} // wr:1h+0, rd:4; oword aligned block read x8
(W) add (1|M0) r127.2<1>:ud r127.2<0;1,0>:ud 0x80:uw {$0.src}
(W) send.dc0 (8|M0) r5 r127 null:0 0x0 0x022843FD {A@1,$1} // wr:1h+0, rd:2; oword aligned block read x4
(W) mov (8|M0) r127.0<1>:ud 0x0:ud {$1.src}
(W) and (1|M0) r127.2<1>:ud r0.0<0;1,0>:ud 0xFFFFFFC0:ud
(W) send.dc0 (8|M0) r8 r127 null:0 0x0 0x022843FD {A@1,$2} // wr:1h+0, rd:2; oword aligned block read x4
(W) mov (8|M0) r3.0<1>:ud r0.0<1;1,0>:ud {$0.dst}
(W) or (1|M0) cr0.0<1>:ud cr0.0<0;1,0>:ud 0x4C0:uw {A@1}
 sync.nop null {Compacted,A@1}
 sync.nop null {Compacted,$2.dst}
(W) cmp (16|M0) (gt)f1.0 null<1>:d r9.0<0;1,0>:d 0:w {A@1}
(W) cmp (16|M16) (gt)f1.0 null<1>:d r9.0<0;1,0>:d 0:w
(W) shl (1|M0) r4.0<1>:d r3.1<0;1,0>:d 6:w {Compacted,I@4}
 mov (16|M0) r5.0<1>:d r1.0<1;1,0>:uw {$1.dst}
 mov (16|M16) r10.0<1>:d r2.0<1;1,0>:uw
 add3 (16|M0) r12.0<1>:d r4.0<0;0>:d r5.0<1;0>:d r7.0<0>:d {I@2}
 add3 (16|M16) r14.0<1>:d r4.0<0;0>:d r10.0<1;0>:d r7.0<0>:d {I@2}
(f1.0) goto (32|M0) L448 L448
L408:
 mov (16|M0) r16.0<1>:ud 0x0:ud
 mov (16|M16) r18.0<1>:f 0.0:f {Compacted}
 goto (32|M0) L448 L1024
L448:
 join (32|M0) L1024
L464:
(W) mul (8|M0) acc0.0<1>:d r12.0<1;1,0>:d r8.12<0;1,0>:uw {Compacted,I@6}
 mach (8|M0) r20.0<1>:d r12.0<1;1,0>:d r8.6<0;1,0>:d {Compacted}
(W) mul (8|M8) acc0.0<1>:d r13.0<1;1,0>:d r8.12<0;1,0>:uw
 mach (8|M8) r21.0<1>:d r13.0<1;1,0>:d r8.6<0;1,0>:d {Compacted}
(W) mul (8|M16) acc0.0<1>:d r14.0<1;1,0>:d r8.12<0;1,0>:uw {I@7}
 mov (16|M0) r24.0<1>:ud 0x0:ud
 mov (16|M16) r26.0<1>:ud 0x0:ud
 mov (16|M0) r28.0<1>:f 0.0:f {Compacted}
 mov (16|M16) r30.0<1>:f 0.0:f {Compacted}
 mov (16|M0) r32.0<1>:f 0.0:f {Compacted}
 mov (16|M16) r34.0<1>:f 0.0:f {Compacted}
 mov (16|M0) r36.0<1>:f 0.0:f {Compacted}
 mov (16|M16) r38.0<1>:f 0.0:f {Compacted}
 mach (8|M16) r22.0<1>:d r14.0<1;1,0>:d r8.6<0;1,0>:d {Compacted}
(W) mul (8|M24) acc0.0<1>:d r15.0<1;1,0>:d r8.12<0;1,0>:uw
(W) mov (1|M0) r4.1<1>:d 0:w
 mach (8|M24) r23.0<1>:d r15.0<1;1,0>:d r8.6<0;1,0>:d {Compacted}
L648:
 add (16|M0) r40.0<1>:d r20.0<1;1,0>:d r4.1<0;1,0>:d {Compacted,I@2}
 add (16|M16) r42.0<1>:d r22.0<1;1,0>:d r4.1<0;1,0>:d {Compacted,I@2}
(W) shl (1|M0) r4.2<1>:d r4.1<0;1,0>:d 6:w
 shl (16|M0) r40.0<1>:d r40.0<1;1,0>:d 4:w {Compacted,I@3}
 shl (16|M16) r42.0<1>:d r42.0<1;1,0>:d 4:w {Compacted,I@3}
 add (16|M0) r60.0<1>:d r4.2<0;1,0>:d r5.0<1;1,0>:d {Compacted,I@3}
 add (16|M16) r62.0<1>:d r4.2<0;1,0>:d r10.0<1;1,0>:d {Compacted}
 add (16|M0) r40.0<1>:d r40.0<1;1,0>:d r9.1<0;1,0>:d {Compacted,I@4}
 add (16|M16) r42.0<1>:d r42.0<1;1,0>:d r9.1<0;1,0>:d {Compacted,I@4}
 shl (16|M0) r60.0<1>:d r60.0<1;1,0>:d 2:w {Compacted,I@4}
 shl (16|M16) r62.0<1>:d r62.0<1;1,0>:d 2:w {Compacted,I@4}
 send.dc1 (16|M0) r44 r40 null:0 0x0 0x04805000 {A@4,$3} // wr:2+0, rd:8; untyped surface read with xyzw
 send.dc1 (16|M16) r52 r42 null:0 0x0 0x04805000 {A@3,$4} // wr:2+0, rd:8; untyped surface read with xyzw
 send.dc1 (16|M0) r64 r60 null:0 0x0 0x04205E01 {A@2,$5} // wr:2+0, rd:2; untyped surface read with x
 send.dc1 (16|M16) r66 r62 null:0 0x0 0x04205E01 {A@1,$6} // wr:2+0, rd:2; untyped surface read with x
(W) add (1|M0) r4.1<1>:d r4.1<0;1,0>:d 1:w {Compacted}
(W) cmp (16|M0) (lt)f0.0 null<1>:d r4.1<0;1,0>:d r9.0<0;1,0>:d {I@1}
(W) cmp (16|M16) (lt)f0.0 null<1>:d r4.1<0;1,0>:d r9.0<0;1,0>:d
 sync.allwr ($3,$5)
 mad (16|M0) r36.0<1>:f r36.0<1;0>:f r64.0<1;0>:f r44.0<1>:f {Compacted,F@2}
 mad (16|M0) r32.0<1>:f r32.0<1;0>:f r64.0<1;0>:f r46.0<1>:f {Compacted}
 mad (16|M0) r28.0<1>:f r28.0<1;0>:f r64.0<1;0>:f r48.0<1>:f {Compacted}
 mad (16|M0) r24.0<1>:f r24.0<1;0>:f r64.0<1;0>:f r50.0<1>:f {Compacted}
 sync.allwr ($4,$6)
 mad (16|M16) r38.0<1>:f r38.0<1;0>:f r66.0<1;0>:f r52.0<1>:f {Compacted,F@5}
 mad (16|M16) r34.0<1>:f r34.0<1;0>:f r66.0<1;0>:f r54.0<1>:f {Compacted}
 mad (16|M16) r30.0<1>:f r30.0<1;0>:f r66.0<1;0>:f r56.0<1>:f {Compacted}
 mad (16|M16) r26.0<1>:f r26.0<1;0>:f r66.0<1;0>:f r58.0<1>:f {Compacted}
(f0.0) goto.b (32|M0) L960 L648
L960:
 join (32|M0) L1024
L976:
 add (16|M0) acc0.0<1>:f r36.0<1;1,0>:f r32.0<1;1,0>:f {Compacted,F@7}
 add (16|M16) acc2.0<1>:f r38.0<1;1,0>:f r34.0<1;1,0>:f {Compacted,F@4}
 add (16|M0) acc0.0<1>:f acc0.0<1;1,0>:f r28.0<1;1,0>:f {Compacted}
 add (16|M16) acc2.0<1>:f acc2.0<1;1,0>:f r30.0<1;1,0>:f {Compacted,F@5}
 add (16|M0) r16.0<1>:f acc0.0<1;1,0>:f r24.0<1;1,0>:f {Compacted}
 add (16|M16) r18.0<1>:f acc2.0<1;1,0>:f r26.0<1;1,0>:f {Compacted,F@6}
L1024:
 join (32|M0) L1040
L1040:
 shl (16|M0) r72.0<1>:d r12.0<1;1,0>:d 2:w {Compacted}
 shl (16|M16) r74.0<1>:d r14.0<1;1,0>:d 2:w {Compacted}
 send.dc1 (16|M0) null r72 r16:2 0x0 0x04025E02 {A@2,$7} // wr:2+2, rd:0; untyped surface write with x
 send.dc1 (16|M16) null r74 r18:2 0x0 0x04025E02 {A@1,$8} // wr:2+2, rd:0; untyped surface write with x
(W) mov (8|M0) r127.0<1>:f r3.0<1;1,0>:f {Compacted}
(W) send.ugm (1|M0) r76 r3 null:0 0x0 0x0214031F {$9} // wr:1+0, rd:1; fence.ugm.none.local
(W) mov (8|M0) null<1>:ud r76.0<1;1,0>:ud {$9.dst}
(W) send.gtwy (8|M0) null r127 null:0 0x0 0x02000010 {EOT,A@1} // wr:1+0, rd:0; end of thread
L1144:
