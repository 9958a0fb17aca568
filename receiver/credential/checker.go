package credential

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/sluice-metrics/sluice/internal/connlimit"
)

// Limits of the cache. Bad credentials have a map of their own: a flood of made-up ones evicts only
// bad ones.
const (
	maxGood = 8192
	maxBad  = 8192
	// maxKnown limits the requests in flight about known credentials, which wait for each other, maxKnownEach those from
	// one address: a service account may have any number of tokens.
	maxKnown     = 2048
	maxKnownEach = 64
)

// checker authenticates credentials of one kind, and caches the results.
type checker struct {
	// lookUp authenticates a credential; a nil principal means a bad one, and why. Known: it was
	// good at the last look-up. An error means that the result is unavailable.
	lookUp func(ctx context.Context, credential string, known bool) (account *Principal, why string, err error)
	ttl    time.Duration

	salt         [32]byte
	asking       singleflight.Group
	unknownSlots *connlimit.Slots // for credentials that were never good
	knownSlots   *connlimit.Slots

	mu        sync.Mutex // guards the fields below
	good, bad map[digest]result
	epoch     int // number of calls of forget and reject
}

type digest [sha256.Size]byte

// result is the principal of a credential, until it expires.
type result struct {
	account *Principal // nil: a bad credential
	why     string
	until   time.Time
}

func newChecker(ttl time.Duration, strangers, each int) *checker {
	c := &checker{ttl: ttl, unknownSlots: connlimit.NewSlots(strangers, each),
		knownSlots: connlimit.NewSlots(maxKnown, maxKnownEach)}
	_, _ = rand.Read(c.salt[:]) // it never fails
	c.forget()
	return c
}

// forget drops all results.
func (c *checker) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.good, c.bad = map[digest]result{}, map[digest]result{}
	c.epoch++
}

// reject makes good credentials bad for a while: those of which the function says so, given the principal.
func (c *checker) reject(why string, until time.Time, of func(*Principal) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for d, v := range c.good {
		if of(v.account) {
			delete(c.good, d)
			put(c.bad, d, result{why: why, until: until}, maxBad)
		}
	}
	c.epoch++ // results of look-ups in flight may be older
}

// check authenticates a credential from an address. The error is an ErrUnavailable, or says why the
// credential is bad.
func (c *checker) check(ctx context.Context, from netip.Prefix, credential string) (*Principal, error) {
	d := c.digest(credential)
	v, known := c.cached(d)
	if !time.Now().Before(v.until) {
		answered := c.asking.DoChan(string(d[:]), func() (any, error) { return c.ask(d, from, credential, known) })
		select {
		case got := <-answered:
			if got.Err != nil {
				return nil, got.Err
			}
			v = got.Val.(result)
		case <-ctx.Done():
			return nil, unavailable("the credential was not checked in time")
		}
	}
	if v.account == nil {
		return nil, rejection(v.why)
	}
	return v.account, nil
}

// rejection says why a credential is bad.
type rejection string

func (r rejection) Error() string { return string(r) }

func (c *checker) digest(credential string) digest {
	var room [2048]byte
	return sha256.Sum256(append(append(room[:0], c.salt[:]...), credential...))
}

// cached is the last result, which may have expired, and whether it was good.
func (c *checker) cached(d digest) (v result, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, known = c.good[d]; known {
		return v, true
	}
	return c.bad[d], false
}

// ask looks the credential up. The result is as old as the start of the look-up.
func (c *checker) ask(d digest, from netip.Prefix, credential string, known bool) (result, error) {
	room := c.unknownSlots
	if known {
		room = c.knownSlots
	}
	if room.Acquire(from) != nil {
		return result{}, unavailable("the limit of concurrent credential checks is reached")
	}
	defer room.Release(from)
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	began, epoch := time.Now(), c.now()
	account, why, err := c.lookUp(ctx, credential, known)
	if err != nil {
		return result{}, err
	}
	v := result{account, why, began.Add(c.ttl)}
	c.remember(d, v, epoch)
	return v, nil
}

func (c *checker) now() (epoch int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// remember caches a result, unless forget or reject was called since the start of the look-up.
func (c *checker) remember(d digest, v result, epoch int) {
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

// put adds an entry to a map of limited size. It evicts a random entry, by the order of a map: a
// client that fills the map on purpose can't choose which one.
func put[K comparable, V any](all map[K]V, key K, value V, limit int) {
	if _, there := all[key]; !there && len(all) >= limit {
		for any := range all {
			delete(all, any)
			break
		}
	}
	all[key] = value
}
