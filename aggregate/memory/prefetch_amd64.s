#include "textflag.h"

// func Prefetch(addresses []uintptr)
TEXT ·Prefetch(SB), NOSPLIT, $0-24
	MOVQ addresses_base+0(FP), SI
	MOVQ addresses_len+8(FP), CX
	LEAQ (SI)(CX*8), DI

loop:
	CMPQ SI, DI
	JEQ  done
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	ADDQ $8, SI
	JMP  loop

done:
	RET
