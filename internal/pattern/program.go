package pattern

import "regexp/syntax"

// onePass is the number of instructions from which on package regexp makes no second program of an anchored expression.
const onePass = 1000

// Bytes is what an expression takes by its program and perhaps a second one, in which each instruction may have the
// ranges of all that follow it.
//
// Source: regexp/onepass.go
func Bytes(program *syntax.Prog) int64 {
	ranges, others, kept := 0, 0, 0
	arrays := map[*rune]bool{}
	for i := range program.Inst {
		r := program.Inst[i].Rune
		if len(r) > 0 {
			ranges += len(r)
		} else {
			others++
		}
		// Instructions share arrays. One of several classes, as in [\pL\PL], is as long as all of these together.
		if n := cap(r); n > 0 && !arrays[&r[:n][n-1]] {
			arrays[&r[:n][n-1]] = true
			kept += n
		}
	}
	n := len(program.Inst)
	size := 40*n + 4*kept
	if n < onePass {
		size += 176*n + 6*ranges*(1+others)
	}
	return int64(size)
}
