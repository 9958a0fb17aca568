package credential

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// court is an API server, as far as it is asked.
type fakeAuthority struct {
	mu     sync.Mutex
	users  map[string]metric.Principal
	rights map[metric.Right]bool
	away   bool
	hold   chan struct{} // where set, strangers' tokens are reviewed once it is closed
	slow   time.Duration // of every other answer
	asked  []string
}

var errAway = errors.New("connection refused")

func (c *fakeAuthority) Authenticate(ctx context.Context, token string, known bool) (*metric.Principal, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, "token "+token)
	if hold := c.hold; hold != nil && !known {
		c.mu.Unlock()
		select {
		case <-hold:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
	if slow := c.slow; slow > 0 && known {
		c.mu.Unlock()
		time.Sleep(slow)
		c.mu.Lock()
	}
	if c.away {
		return nil, "", errAway
	}
	who, ok := c.users[token]
	if !ok {
		return nil, "no such token", nil
	}
	return &who, "", nil
}

func (c *fakeAuthority) Authorize(_ context.Context, _ *metric.Principal, r metric.Right) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.String())
	granted := c.rights[r]
	if slow := c.slow; slow > 0 {
		c.mu.Unlock()
		time.Sleep(slow)
		c.mu.Lock()
	}
	if c.away {
		return false, errAway
	}
	return granted, nil
}

func (c *fakeAuthority) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *fakeAuthority) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func newCourt() *fakeAuthority {
	return &fakeAuthority{
		users:  map[string]metric.Principal{"good": {User: "system:serviceaccount:shop:batch", Namespace: "shop", Name: "batch"}},
		rights: map[metric.Right]bool{},
	}
}

func newDesk(t *testing.T, c *fakeAuthority) *Authenticator {
	t.Helper()
	d, err := NewAuthenticator(Config{Tokens: true}, c, slog.New(slog.DiscardHandler))
	must(t, err)
	return d
}

// The tokens of a namespace that was deleted are rejected at once, though the API server takes them for valid for
// a while. If there is a later one of the name already, the API server is asked about all of them.
func TestTokensEndWithTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		c.users["other"] = metric.Principal{User: "system:serviceaccount:bank:batch", Namespace: "bank", Name: "batch"}
		d := newDesk(t, c)
		valid := func(token string, want bool, asked int) {
			t.Helper()
			before := c.questions()
			if _, err := d.Token(t.Context(), here, token); (err == nil) != want || errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v, want it valid: %v", token, err, want)
			}
			if n := c.questions() - before; n != asked {
				t.Errorf("%s: %d questions, want %d", token, n, asked)
			}
		}
		valid("good", true, 1)
		valid("other", true, 1)
		d.EndNamespace("shop", false)
		valid("good", false, 0)
		valid("other", true, 0)
		time.Sleep(staleFor)
		valid("good", true, 1)
		d.EndNamespace("shop", true)
		c.set(func() { delete(c.users, "good") })
		valid("good", false, 1)
		(*Authenticator)(nil).EndNamespace("shop", false)
	})
}

// A request in flight, whose token was good, can tell that its namespace has ended. A later token has another
// principal.
func TestPrincipalsEndWithTheirNamespace(t *testing.T) {
	c := newCourt()
	c.users["other"] = metric.Principal{User: "system:serviceaccount:bank:batch", Namespace: "bank", Name: "batch"}
	d := newDesk(t, c)
	before, other := mustName(t, d, "good"), mustName(t, d, "other")
	d.EndNamespace("shop", true)
	if !before.Ended() || other.Ended() {
		t.Errorf("ended: %v, another namespace's: %v", before.Ended(), other.Ended())
	}
	if after := mustName(t, d, "good"); after.Ended() {
		t.Error("the principal of a token that was checked since has ended")
	}
}

// Rights in a namespace that was deleted are asked about anew, whoever has them: a later namespace of the name has
// other RoleBindings.
func TestRightsEndWithTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		shop, bank := metric.Right{Verb: metric.Create, Namespace: "shop"}, metric.Right{Verb: metric.Create, Namespace: "bank"}
		c.rights[shop], c.rights[bank] = true, true
		d := newDesk(t, c)
		visitor := d.Certificate("visitor")
		if err := d.CheckRights(t.Context(), visitor, shop, bank); err != nil || visitor.Check(shop) != metric.Allowed {
			t.Fatal(err, visitor.Check(shop))
		}
		before := visitor.Sender(here.Addr(), nil).Key
		c.set(func() { delete(c.rights, shop) })
		d.EndNamespace("shop", true)
		if visitor.Check(shop) != metric.Undecided || visitor.Check(bank) != metric.Allowed {
			t.Errorf("in shop %v, in bank %v", visitor.Check(shop), visitor.Check(bank))
		}
		if visitor.Sender(here.Addr(), nil).Key == before {
			t.Error("earlier decisions about the sender still apply")
		}
		if err := d.CheckRights(t.Context(), visitor, shop); err != nil || visitor.Check(shop) != metric.Denied {
			t.Error(err, visitor.Check(shop))
		}
	})
}

// So do those of an account that others have taken the place of among the accounts that are known.
func TestRightsOfEvictedAccountsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		c.users["other"] = metric.Principal{User: "system:serviceaccount:bank:batch", Namespace: "bank", Name: "batch"}
		shop := metric.Right{Verb: metric.Create, Namespace: "shop"}
		c.rights[shop] = true
		d := newDesk(t, c)
		a, err := d.Token(t.Context(), here, "other")
		must(t, err)
		must(t, d.CheckRights(t.Context(), a, shop))
		d.mu.Lock()
		clear(d.accounts)
		d.mu.Unlock()
		c.set(func() { delete(c.rights, shop) })
		d.EndNamespace("shop", true)
		if again, err := d.Token(t.Context(), here, "other"); err != nil || again.Check(shop) == metric.Allowed {
			t.Errorf("%v: a right in the former namespace stands", err)
		}
		d.EndNamespace("bank", true)
		if !a.Ended() {
			t.Error("a request in flight cannot tell that its namespace has ended")
		}
	})
}

// The rights of a user with a password end with the namespace, too, although no password is of a namespace.
func TestRightsOfPasswordsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(path, []byte(line(t, "ci", "secret", minCost)), 0o600))
	c := newCourt()
	shop := metric.Right{Verb: metric.Create, Namespace: "shop"}
	c.rights[shop] = true
	d, err := NewAuthenticator(Config{BasicAuthFile: path}, c, slog.New(slog.DiscardHandler))
	must(t, err)
	ci, err := d.Password(t.Context(), here, "ci", "secret")
	must(t, err)
	must(t, d.CheckRights(t.Context(), ci, shop))
	d.mu.Lock()
	clear(d.accounts)
	d.mu.Unlock()
	d.EndNamespace("shop", true)
	if again, err := d.Password(t.Context(), here, "ci", "secret"); err != nil || again.Check(shop) == metric.Allowed {
		t.Errorf("%v: a right in the former namespace stands", err)
	}
}

// A right that the API server is asked about while the namespace ends is asked about again: its answer may be from
// before.
func TestRightsFromBeforeTheEndOfTheirNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		c.slow = time.Second
		shop, bank := metric.Right{Verb: metric.Create, Namespace: "shop"}, metric.Right{Verb: metric.Create, Namespace: "bank"}
		c.rights[shop], c.rights[bank] = true, true
		d := newDesk(t, c)
		visitor := d.Certificate("visitor")
		asked := make(chan error)
		go func() { asked <- d.CheckRights(t.Context(), visitor, shop, bank) }()
		synctest.Wait()
		c.set(func() { delete(c.rights, shop) })
		d.EndNamespace("shop", true)
		must(t, <-asked)
		if in := visitor.Check(shop); in != metric.Denied {
			t.Errorf("in the namespace that has the name now: %v, want it denied", in)
		}
		if in := visitor.Check(bank); in != metric.Allowed {
			t.Errorf("in another namespace: %v", in)
		}
	})
}

var here = netip.MustParsePrefix("10.0.0.1/32")

func mustName(t *testing.T, d *Authenticator, token string) *Principal {
	t.Helper()
	a, err := d.Token(t.Context(), here, token)
	must(t, err)
	return a
}

// Good and bad answers are kept for ten seconds, and not longer.
func TestTokensAreAskedAboutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		d := newDesk(t, c)
		a := mustName(t, d, "good")
		if a.User != "system:serviceaccount:shop:batch" || mustName(t, d, "good") != a {
			t.Errorf("%+v", a)
		}
		for range 2 {
			if _, err := d.Token(t.Context(), here, "guessed"); err == nil || errors.Is(err, ErrUnavailable) {
				t.Errorf("a made-up token: %v", err)
			}
		}
		if n := c.questions(); n != 2 {
			t.Errorf("%d questions, want one for each: %q", n, c.asked)
		}
		c.set(func() {
			c.users["guessed"] = c.users["good"]
			delete(c.users, "good")
		})
		time.Sleep(answerTTL - time.Millisecond)
		mustName(t, d, "good")
		time.Sleep(time.Millisecond)
		if _, err := d.Token(t.Context(), here, "good"); err == nil || errors.Is(err, ErrUnavailable) {
			t.Errorf("a token that was taken away: %v", err)
		}
		if mustName(t, d, "guessed") != a {
			t.Error("one account is two")
		}
	})
}

// A result that was looked up before the passwords were reloaded is not cached.
func TestResultFromBeforeAReloadIsNotCached(t *testing.T) {
	c, asked := newChecker(time.Hour, 1, 1), 0
	c.lookUp = func(context.Context, string, bool) (*Principal, string, error) {
		if asked++; asked == 1 {
			c.forget()
		}
		return &Principal{}, "", nil
	}
	for range 3 {
		if _, err := c.check(t.Context(), here, "good"); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Errorf("%d look-ups; want one from before the reload and one from after it", asked)
	}
}

// While the API server is away, no token is called bad, and answers younger than ten seconds stay
// valid.
func TestAuthorityAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		d := newDesk(t, c)
		a, right := mustName(t, d, "good"), metric.Right{Verb: metric.Create, Namespace: "bank"}
		c.set(func() { c.away = true })
		mustName(t, d, "good")
		if err := d.CheckRights(t.Context(), a, right); !errors.Is(err, ErrUnavailable) || a.Check(right) != metric.Undecided {
			t.Errorf("a right: %v, %v", err, a.Check(right))
		}
		time.Sleep(answerTTL)
		for _, token := range []string{"good", "guessed"} {
			if _, err := d.Token(t.Context(), here, token); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s: %v", token, err)
			}
		}
		c.set(func() { c.away = false })
		mustName(t, d, "good")
	})
}

// A flood of made-up tokens fills the cache of bad ones only; known tokens are answered meanwhile.
func TestFloodOfMadeUpTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		d := newDesk(t, c)
		mustName(t, d, "good")
		for i := range 2 * maxBad {
			_, _ = d.Token(t.Context(), here, fmt.Sprint("guessed ", i))
		}
		if n := len(d.tokens.bad); n != maxBad {
			t.Errorf("%d bad ones are remembered, want %d", n, maxBad)
		}
		time.Sleep(8 * time.Second)
		c.set(func() { c.hold = make(chan struct{}) })
		var flood sync.WaitGroup
		full := 0
		for i := range maxUnknown {
			from := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i / maxUnknownEach)}), 32)
			flood.Go(func() { _, _ = d.Token(context.Background(), from, fmt.Sprint("waiting ", i)) })
			synctest.Wait()
			if (i+1)%maxUnknownEach == 0 {
				if _, err := d.Token(t.Context(), from, "one more"); errors.Is(err, ErrUnavailable) {
					full++
				}
			}
		}
		if full != maxUnknown/maxUnknownEach {
			t.Errorf("%d addresses were told that they have enough in flight", full)
		}
		if _, err := d.Token(t.Context(), here, "new"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("beyond the bound: %v", err)
		}
		time.Sleep(3 * time.Second) // less than the questions wait, and what is known of the good one is over
		n := c.questions()
		mustName(t, d, "good")
		if c.questions() != n+1 {
			t.Error("it was not asked about again")
		}
		close(c.hold)
		flood.Wait()
		if taken, _ := d.tokens.unknownSlots.Taken(netip.Prefix{}); taken != 0 {
			t.Errorf("%d slots are still taken", taken)
		}
	})
}

// Sixteen addresses that send made-up tokens without end keep no new token of another one out.
func TestMadeUpTokensOfManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		c.hold = make(chan struct{})
		d := newDesk(t, c)
		var asking sync.WaitGroup
		for i := range 16 * maxUnknownEach {
			asking.Go(func() { _, _ = d.Token(t.Context(), address(i/maxUnknownEach), fmt.Sprint("made up ", i)) })
		}
		synctest.Wait()
		asking.Go(func() {
			if _, err := d.Token(t.Context(), here, "good"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		close(c.hold)
		asking.Wait()
	})
}

// A service account may have any number of tokens. Those of sixteen addresses keep no known token of another one out.
func TestKnownTokensOfManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		d := newDesk(t, c)
		mustName(t, d, "good")
		const each = maxKnown / 16
		for i := range 16 * each {
			token := fmt.Sprint("minted ", i)
			c.set(func() {
				c.users[token] = metric.Principal{User: "system:serviceaccount:flood:runner", Namespace: "flood", Name: "runner"}
			})
			mustName(t, d, token)
		}
		time.Sleep(answerTTL)
		c.set(func() { c.slow = time.Second })
		var asking sync.WaitGroup
		for i := range 16 * each {
			asking.Go(func() { _, _ = d.Token(t.Context(), address(i/each), fmt.Sprint("minted ", i)) })
		}
		synctest.Wait()
		mustName(t, d, "good")
		asking.Wait()
	})
}

// The rights of a namespace's accounts, of which there may be any number, are asked about without delaying those of others.
func TestRightsOfManyAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		c.slow = 100 * time.Millisecond
		d := newDesk(t, c)
		var asking sync.WaitGroup
		for i := range 500 {
			account := d.account(metric.Principal{Namespace: "flood", Name: fmt.Sprint("runner-", i)})
			for j := range maxAskedEach {
				asking.Go(func() {
					_ = d.CheckRights(t.Context(), account, metric.Right{Verb: metric.Create, Namespace: fmt.Sprint("n", j)})
				})
			}
		}
		synctest.Wait()
		began := time.Now()
		if err := d.CheckRights(t.Context(), mustName(t, d, "good"), metric.Right{Verb: metric.Create, Namespace: "bank"}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a right of another namespace's account is known after %v", took)
		}
		asking.Wait()
		time.Sleep(time.Minute) // questions go on without those who asked
	})
}

// address is one of many.
func address(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}), 32)
}

// Concurrent callers with the same question share one request.
func TestOneQuestionForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		c.hold = make(chan struct{})
		d := newDesk(t, c)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := d.Token(t.Context(), here, "good"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(c.hold)
		all.Wait()
		if n := c.questions(); n != 1 {
			t.Errorf("%d questions", n)
		}
	})
}

// An account is another sender once a right was granted or taken away, and not when one is asked
// about for the first time.
func TestRightsChangeTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt()
		d := newDesk(t, c)
		a := mustName(t, d, "good")
		key := func() uint64 { return a.Sender(netip.Addr{}, nil).Key }
		bank, wide := metric.Right{Verb: metric.Create, Namespace: "bank"}, metric.Right{Verb: metric.Create}
		first := key()
		ask := func(want metric.Decision) {
			t.Helper()
			if err := d.CheckRights(t.Context(), a, bank); err != nil || a.Check(bank) != want {
				t.Fatalf("%v, %v, want %v", a.Check(bank), err, want)
			}
		}
		if a.Check(bank) != metric.Undecided {
			t.Error("granted before it was asked about")
		}
		ask(metric.Denied)
		if key() != first {
			t.Error("another sender though nothing was granted")
		}
		c.set(func() { c.rights[bank] = true })
		ask(metric.Denied) // that is known
		time.Sleep(answerTTL)
		if a.Check(bank) != metric.Undecided {
			t.Error("an answer is relied on for too long")
		}
		ask(metric.Allowed)
		second := key()
		if second == first {
			t.Error("the same sender though a right was granted")
		}
		time.Sleep(answerTTL)
		d.RenewRights(t.Context(), a)
		if a.Check(bank) != metric.Allowed || key() != second {
			t.Error("not renewed, or another sender by it")
		}
		c.set(func() { c.rights[bank] = false })
		time.Sleep(answerTTL)
		d.RenewRights(t.Context(), a)
		if a.Check(bank) != metric.Denied || key() == second || key() == first {
			t.Error("the same sender though a right was taken away")
		}
		third := key()
		c.set(func() { c.rights[wide] = true })
		time.Sleep(answerTTL)
		ask(metric.Allowed)
		if key() == third {
			t.Error("the same sender though all was granted")
		}
		n := c.questions()
		other := metric.Right{Verb: metric.Create, Namespace: "other"}
		if a.Check(other) != metric.Allowed || d.CheckRights(t.Context(), a, other) != nil || c.questions() != n {
			t.Error("what is granted at the cluster scope is asked about in a namespace")
		}
		fourth := key()
		c.set(func() { c.away = true })
		time.Sleep(answerTTL)
		d.RenewRights(t.Context(), a)
		if a.Check(bank) != metric.Undecided || key() == fourth {
			t.Error("what cannot be asked about is relied on")
		}
	})
}

// A pod's sender is its own, and what an account asks about is bounded.
func TestAccountsAreBounded(t *testing.T) {
	c := newCourt()
	d := newDesk(t, c)
	a := mustName(t, d, "good")
	bare, pod := a.Sender(netip.Addr{}, nil), a.Sender(netip.Addr{}, &metric.Pod{UID: "1"})
	if bare.Key == pod.Key || bare.Key == 0 || !bare.Known || pod.Pod == nil || pod.Principal.User != a.User {
		t.Errorf("%+v, %+v", bare, pod)
	}
	for i := range 2 * maxRights {
		a.learn(metric.Right{Verb: metric.Create, Namespace: fmt.Sprint(i)}, answer{true, time.Now().Add(time.Hour)})
	}
	if n := len(*a.rights.Load()); n > maxRights {
		t.Errorf("%d rights are remembered", n)
	}
	if a.Sender(netip.Addr{}, nil).Key == bare.Key {
		t.Error("rights were forgotten, and the sender is the same")
	}
	for i := range maxAccounts + 10 {
		d.Certificate(fmt.Sprint(i))
	}
	if n := len(d.accounts); n != maxAccounts {
		t.Errorf("%d accounts are remembered", n)
	}
}
