package aggregate

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Damage in the state of a replica is never a panic, wherever it is.
func TestRestoreOfDamagedReplicas(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	damaged := func(blob []byte) []byte {
		blob = bytes.Clone(blob)
		for range r.IntN(4) {
			blob[r.IntN(len(blob))] = byte(r.Uint32())
		}
		return blob[:len(blob)-r.IntN(2)*r.IntN(len(blob))]
	}
	f := newReplica(t)
	p := &pushes{r: r, life: 1, counts: make([]float64, 4)}
	f.push("before:0|s|#pod:p1,ns:ns", "c:1|c|#pod:a,ns:ns", "shifted:+1.5|g|#pod:a,ns:ns", "exact:9007199254740993|g|#pod:a,ns:ns")
	f.AdoptSetSeed(1)
	for range 3 {
		f.churn(r, p)
	}
	delta := f.AppendDelta(nil, 0)
	names, state := f.AppendBlockNames(nil, 0), f.AppendState(nil, 0)
	for range size(300, 60, 20) {
		withstand(t, newReplica(t), damaged(names), damaged(state), damaged(delta))
		withstand(t, newReplica(t), names, damaged(state), nil)
		withstand(t, newReplica(t), names, state, damaged(delta))
	}
}
