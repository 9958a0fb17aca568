#include "textflag.h"

// func Prefetch(addresses []uintptr)
TEXT ·Prefetch(SB), NOSPLIT, $0-24
	MOVD addresses_base+0(FP), R0
	MOVD addresses_len+8(FP), R1
	ADD  R1<<3, R0, R1

loop:
	CMP  R0, R1
	BEQ  done
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	B    loop

done:
	RET
