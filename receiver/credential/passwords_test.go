package credential

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/bcrypt"
)

func line(t *testing.T, name, password string, cost int) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	must(t, err)
	return name + ":" + string(hash) + "\n"
}

func TestPasswordFile(t *testing.T) {
	good := line(t, "anna", "secret", minCost)
	for _, c := range []struct{ text, says string }{
		{good, ""},
		{"# people\n\n" + good + "\r\n", ""},
		{strings.Replace(good, "$2a$", "$2y$", 1), ""},
		{"", "no line of name:hash"},
		{"anna", "line 1 is not name:hash"},
		{":" + strings.TrimPrefix(good, "anna:"), "line 1 is not name:hash"},
		{good + good, `line 2: name "anna" is repeated`},
		{"\nbob:$apr1$abc$def\n", `line 2: the password of "bob" is not a bcrypt hash; must have 60 characters`},
		{"bob:{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=\n", "not a bcrypt hash"},
		{"bob:secret\n", "not a bcrypt hash"},
		{strings.TrimSpace(good) + "x\n", "not a bcrypt hash"},
		{strings.Replace(good, "$08$", "$14$", 1), `the bcrypt cost of "anna" is 14; must be from 8 to 12`},
		{strings.Replace(good, "$08$", "$04$", 1), `is 4; must be from 8 to 12`},
		{strings.Repeat("#", maxFileBytes+1), "must have at most"},
	} {
		_, err := parsePasswords([]byte(c.text))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%.60q: %v, want %q", c.text, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password is told: %v", err)
		}
	}
}

func FuzzPasswordFile(f *testing.F) {
	f.Add("anna:$2y$10$abcdefghijklmnopqrstuuI4Xk6Z0NQwQH1g1g1g1g1g1g1g1g1g1\n")
	f.Add("#\n:\n\x00:$2a$")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parsePasswords([]byte(text))
		if err != nil {
			return
		}
		for name, hash := range file.hashes {
			if cost, err := bcrypt.Cost(hash); name == "" || err != nil || cost > maxCost {
				t.Errorf("%q: %q", name, hash)
			}
		}
	})
}

func TestPasswords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "htpasswd")
	write := func(text string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(line(t, "anna", "secret", minCost) + line(t, "bob", "", minCost))
	d, err := NewAuthenticator(Config{BasicAuthFile: path}, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	wants := func(name, password, user string) {
		t.Helper()
		a, err := d.Password(t.Context(), here, name, password)
		switch {
		case user == "" && (err == nil || err.Error() != wrongPassword):
			t.Errorf("%s:%s: %v, %v", name, password, a, err)
		case user != "" && (err != nil || a.User != user || a.Namespace != ""):
			t.Errorf("%s:%s: %v, %v", name, password, a, err)
		}
	}
	wants("anna", "secret", "sluice:basic:anna")
	wants("bob", "", "sluice:basic:bob")
	wants("anna", "Secret", "")
	wants("anna", "", "")
	wants("carl", "secret", "")
	wants("", "", "")
	wants("carl", "nobody", "") // what the decoy is of

	for _, slots := range []chan struct{}{d.passwords.slots, d.passwords.knownSlot} { // none is left for a comparison
		for len(slots) < cap(slots) {
			slots <- struct{}{}
		}
	}
	wants("anna", "secret", "sluice:basic:anna") // remembered: it is not compared again
	for _, slots := range []chan struct{}{d.passwords.slots, d.passwords.knownSlot} {
		for len(slots) > 0 {
			<-slots
		}
	}
	write(line(t, "anna", "changed", minCost))
	if changed, err := d.passwords.load(); !changed || err != nil {
		t.Error(changed, err)
	}
	wants("anna", "secret", "")
	wants("anna", "changed", "sluice:basic:anna")
	write("nonsense")
	if _, err := d.passwords.load(); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	wants("anna", "changed", "sluice:basic:anna")
}

// Sixteen addresses that guess without end keep no new client of another one out.
func TestGuessesOfManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChecker(goodFor, maxCompared, maxComparedEach)
		compared := make(chan struct{})
		c.lookUp = func(_ context.Context, credential string, _ bool) (*Principal, string, error) {
			<-compared
			if credential == "anna:secret" {
				return &Principal{}, "", nil
			}
			return nil, wrongPassword, nil
		}
		var guessing sync.WaitGroup
		for i := range 16 * maxComparedEach {
			guessing.Go(func() { _, _ = c.check(t.Context(), address(i/maxComparedEach), fmt.Sprint("anna:guess ", i)) })
		}
		synctest.Wait()
		guessing.Go(func() {
			if _, err := c.check(t.Context(), here, "anna:secret"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		close(compared)
		guessing.Wait()
	})
}

// A comparison takes as long for an unknown name as for a known one.
func TestUnknownNamesTakeAsLong(t *testing.T) {
	file, err := parsePasswords([]byte(line(t, "anna", "secret", 9) + line(t, "bob", "x", minCost)))
	must(t, err)
	if file.cost() != 9 {
		t.Errorf("the decoy costs %d, want 9", file.cost())
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
