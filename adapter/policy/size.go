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

// Size is about how many bytes the policy takes, and not less. Its expressions take the most: "\pL{900}" takes 14 MB.
func (p *Policy) Size() int64 { return p.size }

// Lacks is the size of a policy WithoutRoom; 0: it is another one.
func (p *Policy) Lacks() int64 { return p.lacks }

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

// patternBytes is what an expression takes, with that of any case: each has a program, and perhaps a second one, in which
// each instruction may have the ranges of all that follow it.
//
// Source: regexp/onepass.go
func patternBytes(program *syntax.Prog) int64 {
	ranges, others := 0, 0
	for i := range program.Inst {
		if n := len(program.Inst[i].Rune); n > 0 {
			ranges += n
		} else {
			others++
		}
	}
	n := len(program.Inst)
	size := 40*n + 4*ranges
	if n < onePass {
		size += 176*n + 6*ranges*(1+others)
	}
	return 2 * int64(size)
}
