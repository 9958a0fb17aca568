package policy

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
