package credential

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sluice-metrics/sluice/connlimit"
)

// Bounds of what is remembered. Made-up credentials are in a place of their own: a flood of them drives out nothing but
// each other.
const (
	maxGood = 8192
	maxBad  = 8192
	// maxRegulars bounds the questions in flight about credentials that were good. They wait for each other.
	maxRegulars = 1024
)

// checker finds out whom the credentials of one sort name, and remembers that for a moment.
type checker struct {
	// ask says whom a credential names; nil: nobody, and why. Known: it was good when it was asked about last. An error is
	// that it cannot be said.
	ask func(ctx context.Context, credential string, known bool) (account *Principal, why string, err error)
	ttl time.Duration

	salt      [32]byte
	asking    singleflight.Group
	strangers *connlimit.Slots // questions about credentials of which nothing good is known
	regulars  *connlimit.Slots

	mu        sync.Mutex // guards what follows
	good, bad map[digest]verdict
	epoch     int // how often all was forgotten
}

type digest [sha256.Size]byte

// verdict is whom a credential names, until it has to be asked about again.
type verdict struct {
	account *Principal // nil: nobody
	why     string
	until   time.Time
}

func newChecker(ttl time.Duration, strangers, each int) *checker {
	c := &checker{ttl: ttl, strangers: connlimit.NewSlots(strangers, each), regulars: connlimit.NewSlots(maxRegulars, maxRegulars)}
	_, _ = rand.Read(c.salt[:]) // it never fails
	c.forget()
	return c
}

// forget makes everything be asked about again.
func (c *checker) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.good, c.bad = map[digest]verdict{}, map[digest]verdict{}
	c.epoch++
}

// check says whom a credential names that came from an address. The error is an ErrUnavailable, or says why it is no good.
func (c *checker) check(ctx context.Context, from netip.Prefix, credential string) (*Principal, error) {
	d := c.digest(credential)
	v, known := c.recall(d)
	if !time.Now().Before(v.until) {
		answered := c.asking.DoChan(string(d[:]), func() (any, error) { return c.question(d, from, credential, known) })
		select {
		case got := <-answered:
			if got.Err != nil {
				return nil, got.Err
			}
			v = got.Val.(verdict)
		case <-ctx.Done():
			return nil, unavailable("the credential was not checked in time")
		}
	}
	if v.account == nil {
		return nil, refusal(v.why)
	}
	return v.account, nil
}

// refusal is why a credential is no good.
type refusal string

func (r refusal) Error() string { return string(r) }

func (c *checker) digest(credential string) digest {
	var room [2048]byte
	return sha256.Sum256(append(append(room[:0], c.salt[:]...), credential...))
}

// recall is what was found out last, which may be over, and whether that was good.
func (c *checker) recall(d digest) (v verdict, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, known = c.good[d]; known {
		return v, true
	}
	return c.bad[d], false
}

// question asks. An answer is as old as its question.
func (c *checker) question(d digest, from netip.Prefix, credential string, known bool) (verdict, error) {
	room := c.strangers
	if known {
		room = c.regulars
	}
	if room.Acquire(from) != nil {
		return verdict{}, unavailable("as many credentials are being checked as may be")
	}
	defer room.Release(from)
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	began, epoch := time.Now(), c.now()
	account, why, err := c.ask(ctx, credential, known)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{account, why, began.Add(c.ttl)}
	c.remember(d, v, epoch)
	return v, nil
}

func (c *checker) now() (epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// remember enters what was found out, unless all was forgotten since it was asked.
func (c *checker) remember(d digest, v verdict, epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.epoch {
		return
	}
	if v.account == nil {
		delete(c.good, d)
		put(c.bad, d, v, maxBad)
		return
	}
	delete(c.bad, d)
	put(c.good, d, v, maxGood)
}

// put enters something into a map of at most so many. Which one goes for it is left to chance, as the order of a map is:
// whoever fills it on purpose cannot choose.
func put[K comparable, V any](all map[K]V, key K, value V, most int) {
	if _, there := all[key]; !there && len(all) >= most {
		for any := range all {
			delete(all, any)
			break
		}
	}
	all[key] = value
}
