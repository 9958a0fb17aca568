package replicas

import (
	"strings"
	"testing"
)

// A replica's name belongs to its data: under another one, the others would count the data twice.
func TestDataKeepsItsReplicasName(t *testing.T) {
	t.Parallel()
	m := startMesh(t, 2)
	for _, s := range m {
		send(t, s, "jobs:25|c")
	}
	want := map[string]float64{"jobs:total": 50}
	wantTotals(t, m, want)

	m[1].Stop()
	m[1].Add("--replica-name", "") // as after the host was renamed
	m[1].Start()
	m.joined(t, 1)
	wantTotals(t, m, want)

	m[1].Stop()
	m[1].Add("--replica-name", "sluice-7")
	err := m[1].TryStart()
	if err == nil {
		t.Fatal("the replica started with the data of another one")
	}
	for _, part := range []string{"exit status 2", `--replica-name is "sluice-7"`, `must be "sluice-1"`, m[1].DataDir()} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %s:\n%v", part, err)
		}
	}
	wantTotals(t, m[:1], want)
}
