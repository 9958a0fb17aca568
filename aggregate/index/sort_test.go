package index

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSortByName(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, alphabet := range []string{"ab", "a\x00\xff", "web-7d9c5b"} {
		for range 300 {
			shared := strings.Repeat("x", random.IntN(10))
			var names []string
			var all []Found
			for range random.IntN(30) {
				name := []byte(shared)
				for range random.IntN(12) {
					name = append(name, alphabet[random.IntN(len(alphabet))])
				}
				names = append(names, string(name))
				all = append(all, Found{Entry: &Entry{Name: string(name)}})
			}
			slices.Sort(names)
			got := (&Buffer{found: all}).sort()
			if len(got) != len(names) {
				t.Fatalf("%d of %d", len(got), len(names))
			}
			for i := range got {
				if got[i].Entry.Name != names[i] {
					t.Fatalf("at %d of %q stands %q", i, names, got[i].Entry.Name)
				}
			}
		}
	}
}
