package policy

import "regexp/syntax"

// What the parts of a policy take beside their texts, in bytes.
const (
	policyBytes  = 512
	ruleBytes    = 1024
	subjectBytes = 96
	labelBytes   = 256 // of a key that a selector names
	valueBytes   = 40
)

// maxPolicy bounds the memory of one policy. 64 expressions of 128 bytes take half of it.
const maxPolicy = 8 << 20

// Size is about how many bytes the policy takes, and not less. Its expressions take the most: "\pL{450}" takes more than 8 MiB.
func (p *Policy) Size() int64 { return p.size }

// Lacks is what there was no room for: the size of a policy WithoutRoom, the rules of an Uncompiled one; of another one
// both are 0.
func (p *Policy) Lacks() (bytes int64, rules int) { return p.lacks.bytes, p.lacks.rules }

// Compiled is the number of rules that took time to compile, also of a policy that has no room for them.
func (p *Policy) Compiled() int { return p.compiled }

func (s Subject) bytes() int64 { return subjectBytes + int64(len(s.Kind)+len(s.Name)+len(s.Namespace)) }

// bytes counts values twice: in the set and in the text.
func (s *Selector) bytes() (n int64) {
	for _, r := range s.requirements() {
		n += labelBytes + 2*int64(len(r.Key))
		for _, value := range r.Values {
			n += valueBytes + 2*int64(len(value))
		}
	}
	return n
}

// onePass is the number of instructions from which on package regexp makes no second program of an anchored expression.
const onePass = 1000

// programBytes is what an expression takes by its program and perhaps a second one, in which each instruction may have the
// ranges of all that follow it.
//
// Source: regexp/onepass.go
func programBytes(program *syntax.Prog) int64 {
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
