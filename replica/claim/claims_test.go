package claim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// cluster is some replicas that tell each other their claims.
type cluster struct {
	names []string
	all   map[string]*Claims
	dead  map[string]bool
	start uint64
}

func newCluster(names ...string) *cluster {
	c := &cluster{names: names, all: map[string]*Claims{}, dead: map[string]bool{}}
	for _, name := range names {
		c.restart(name)
	}
	return c
}

func (c *cluster) restart(name string) {
	c.start++
	c.dead[name] = false
	c.all[name] = New(Parts{Name: name, Process: c.start, Lives: func(other string) bool { return !c.dead[other] }, Soon: func() {}})
}

// tell has all replicas tell each other everything, or what has changed, in any order.
func (c *cluster) tell(t *testing.T, documents func(*Claims) []Document) {
	t.Helper()
	for _, from := range c.names {
		all := documents(c.all[from])
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, to := range c.names {
			if c.dead[from] || c.dead[to] {
				continue
			}
			if err := c.all[to].Apply(from, all); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// holders is who holds a claim, as each replica sees it.
func (c *cluster) holders(what string) (all []string) {
	for _, name := range c.names {
		if !c.dead[name] {
			all = append(all, c.all[name].Of(what).Holder)
		}
	}
	return all
}

func (c *cluster) want(t *testing.T, what string, holders ...string) {
	t.Helper()
	if got := c.holders(what); !slices.Equal(got, holders) {
		t.Errorf("holders of %s: %q, want %q", what, got, holders)
	}
}

// A claim stands until it is released or taken, its holder dies or starts again; the last one to take it holds it.
func TestClaims(t *testing.T) {
	c := newCluster("a", "b", "c")
	a, b := c.all["a"], c.all["b"]
	a.Take("n")
	c.want(t, "n", "a", "", "")
	c.tell(t, (*Claims).TakeShared)
	c.want(t, "n", "a", "a", "a")
	if h := a.Of("n"); !h.Mine {
		t.Errorf("%+v of the holder", h)
	}
	b.Take("n")
	b.Release("other")
	c.tell(t, (*Claims).TakeShared)
	c.want(t, "n", "b", "b", "b")
	a.Release("n") // it is b's
	c.tell(t, (*Claims).TakeShared)
	c.want(t, "n", "b", "b", "b")
	b.Release("n")
	c.tell(t, (*Claims).TakeShared)
	c.want(t, "n", "", "", "")
	a.Take("n")
	c.tell(t, (*Claims).TakeShared)
	c.want(t, "n", "a", "a", "a")
	c.dead["a"] = true
	c.want(t, "n", "", "")
	c.dead["a"] = false // it stood still
	c.want(t, "n", "a", "a", "a")
	c.restart("a")
	c.want(t, "n", "", "a", "a")
	late := a.AllShared()
	c.tell(t, (*Claims).TakeShared)
	c.want(t, "n", "", "", "")
	if err := b.Apply("a", late); err != nil {
		t.Error(err)
	}
	c.want(t, "n", "", "", "") // those of a process that has ended
	if !b.Speaks("a") || b.Speaks("d") || !b.Known("n") || b.Known("m") {
		t.Error("what is known is wrong")
	}
}

// Whatever is taken and released where, and in which order it is heard, all replicas agree afterwards.
func TestAllAgree(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newCluster("a", "b", "c")
		for range 30 {
			by, what := c.all[c.names[rng.IntN(3)]], fmt.Sprint(rng.IntN(2))
			switch rng.IntN(8) {
			case 0:
				by.Release(what)
			case 1:
				c.tell(t, (*Claims).TakeShared)
			case 2:
				c.restart(c.names[rng.IntN(3)])
			default:
				by.Take(what)
			}
		}
		c.tell(t, (*Claims).AllShared)
		for what := range 2 {
			for range 3 { // who has lost a claim that it did not know of takes it again
				c.tell(t, (*Claims).AllShared)
			}
			if got := c.holders(fmt.Sprint(what)); got[0] != got[1] || got[1] != got[2] {
				t.Fatalf("seed %d: holders of %d: %q", seed, what, got)
			}
		}
	}
}

// What nobody holds is forgotten, and may then be taken with a small number.
func TestOldClaimsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("a", "b", "c")
		for range 5 {
			c.all["a"].Take("n")
			c.all["a"].Release("n")
		}
		c.all["b"].Take("kept")
		c.tell(t, (*Claims).TakeShared)
		pass := func(minutes int) {
			for range minutes {
				time.Sleep(time.Minute)
				c.tell(t, (*Claims).TakeShared)
				c.holders("n")
			}
		}
		pass(8)
		if !c.all["c"].Known("n") {
			t.Error("the claim is forgotten after eight minutes")
		}
		pass(4)
		if c.all["c"].Known("n") {
			t.Error("the claim is known after twelve minutes")
		}
		delete(c.all["b"].all, "n")
		c.all["b"].Take("n")
		c.tell(t, (*Claims).TakeShared)
		c.want(t, "n", "b", "b", "b")
		c.want(t, "kept", "b", "b", "b")
		c.all["b"].Release("n")
		pass(20)
		if n := len(c.all["a"].all); n != 1 {
			t.Errorf("%d claims are remembered, want the one that is held", n)
		}
	})
}

// A damaged claim changes nothing, and other ones that come with it count; names and number are bounded.
func TestForgedClaims(t *testing.T) {
	c := newCluster("a", "b")
	c.all["a"].Take("n")
	c.all["a"].Take(string(make([]byte, longest+1)))
	good := c.all["a"].TakeShared()
	if len(good) != 2 {
		t.Fatalf("%d documents, want two", len(good))
	}
	for _, value := range [][]byte{nil, {0x80}, {1}, {1, 0x80}, {1, 1}, append([]byte{1, 1, 0}, make([]byte, longest+1)...)} {
		if err := c.all["b"].Apply("a", append([]Document{{Value: value}}, good...)); err == nil {
			t.Errorf("%q is no error", value)
		}
	}
	c.want(t, "n", "a", "a")
	if err := c.all["b"].Apply("b", []Document{{Value: nil}}); err != nil {
		t.Error("an own claim that comes back is read")
	}
	for i := range most + 10 {
		c.all["b"].Take(fmt.Sprint(i))
	}
	if n := len(c.all["b"].all); n != most {
		t.Errorf("%d claims, want %d at most", n, most)
	}
}

// The last holder is gone for good, and one of the two others, which has started again since and knows nothing of it, takes
// the claim.
func TestAClaimOfOneThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("a", "b", "c")
		c.tell(t, (*Claims).TakeShared)
		for _, name := range []string{"b", "c"} {
			c.all[name].Take("n")
			c.tell(t, (*Claims).TakeShared)
		}
		c.dead["c"] = true
		c.restart("a")
		c.tell(t, (*Claims).TakeShared)
		c.all["a"].Take("n")
		c.tell(t, (*Claims).TakeShared)
		c.want(t, "n", "a", "a")
	})
}

// The disk was lost and the clock set back, so the new process has a smaller number than the former.
func TestAProcessWithASmallerNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("a", "b")
		c.all["a"].Take("n")
		c.tell(t, (*Claims).TakeShared)
		c.start = 0
		time.Sleep(lateFor)
		c.restart("a")
		c.all["a"].parts.Process = 0
		c.all["a"].Take("m")
		c.tell(t, (*Claims).TakeShared)
		c.want(t, "m", "a", "a")
	})
}
