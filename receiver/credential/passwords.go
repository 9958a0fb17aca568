package credential

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-metrics/sluice/config"
	"github.com/sluice-metrics/sluice/metric"
	"golang.org/x/crypto/bcrypt"
)

const (
	// Comparing takes 50 ms of a processor at a cost of 10, and twice as long for each one more.
	minCost, maxCost = 8, 12
	// goodFor is how long a comparison is remembered; a new file makes all be forgotten.
	goodFor = 30 * time.Second
	// maxCompared bounds the comparisons that wait, maxComparedEach those that one address brought.
	maxCompared     = 32
	maxComparedEach = 4
	maxFileBytes    = 1 << 20
)

// passwords are those of a file.
type passwords struct {
	*checker
	path string
	desk *Authenticator
	held atomic.Pointer[passwordFile]
	// Comparisons take turns: one place is kept for who was good before.
	turns, regularTurn chan struct{}
}

// passwordFile is the file's content. It is never changed.
type passwordFile struct {
	text   []byte
	hashes map[string][]byte // by name
	// decoy is what is compared with where there is no such name: it costs as much as the dearest.
	decoy []byte
}

func newPasswords(path string, d *Authenticator) (*passwords, error) {
	p := &passwords{
		checker: newChecker(goodFor, maxCompared, maxComparedEach), path: path, desk: d,
		turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), regularTurn: make(chan struct{}, 1),
	}
	p.ask = p.compare
	_, err := p.load()
	return p, err
}

// load reads the file, and reports whether it says something else than before.
func (p *passwords) load() (changed bool, err error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return false, config.NewFault("BasicAuthFile", "cannot be read: %w", err)
	}
	held := p.held.Load()
	if held != nil && bytes.Equal(held.text, text) {
		return false, nil
	}
	file, err := parsePasswords(text)
	if err != nil {
		return false, config.NewFault("BasicAuthFile", "%s: %w", p.path, err)
	}
	if held != nil && held.cost() == file.cost() {
		file.decoy = held.decoy
	} else if file.decoy, err = bcrypt.GenerateFromPassword([]byte("nobody"), file.cost()); err != nil {
		return false, err
	}
	p.held.Store(file)
	p.forget()
	return true, nil
}

// follow reads the file again when it changes. One that cannot be read leaves the one before in force.
func (p *passwords) follow(ctx context.Context) {
	PollFiles(ctx, p.load,
		func() {
			p.desk.log.Info("push: passwords were read again", "file", p.path, "names", len(p.held.Load().hashes))
		},
		func(err error) {
			p.desk.log.Error("push: the passwords that were read before stay in force", "error", p.desk.worded(err))
		})
}

// parsePasswords reads lines of "name:bcrypt", as htpasswd -B writes them. Empty lines and those that begin with # say nothing.
func parsePasswords(text []byte) (*passwordFile, error) {
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("it has %d bytes, but may have %d", len(text), maxFileBytes)
	}
	f := &passwordFile{text: text, hashes: map[string][]byte{}}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf(`line %d is not name:hash; want lines as "htpasswd -nB NAME" prints them`, n)
		}
		if _, twice := f.hashes[name]; twice {
			return nil, fmt.Errorf("line %d: %q has a line before; want one", n, name)
		}
		cost, err := bcrypt.Cost([]byte(hash))
		switch {
		case err != nil || len(hash) != 60:
			return nil, fmt.Errorf(`line %d: the password of %q is no bcrypt hash; want one of 60 characters that begins with $2y$, $2b$ or $2a$, as "htpasswd -nB %s" prints it`, n, name, name)
		case cost < minCost || cost > maxCost:
			return nil, fmt.Errorf("line %d: the bcrypt cost of %q is %d; want %d to %d, as each comparison takes a processor that long", n, name, cost, minCost, maxCost)
		}
		f.hashes[name] = []byte(hash)
	}
	if len(f.hashes) == 0 {
		return nil, fmt.Errorf(`it has no line of name:hash; want one at least, as "htpasswd -nB NAME" prints it`)
	}
	return f, nil
}

// cost is that of the dearest comparison.
func (f *passwordFile) cost() int {
	most := minCost
	for _, hash := range f.hashes {
		if cost, err := bcrypt.Cost(hash); err == nil {
			most = max(most, cost)
		}
	}
	return most
}

const wrongPassword = "name or password is wrong"

// compare implements checker.ask. It takes as long for a name that there is not.
func (p *passwords) compare(ctx context.Context, credential string, known bool) (*Principal, string, error) {
	turns := p.turns
	if known {
		turns = p.regularTurn
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, "", unavailable("too many passwords are to be compared")
	}
	name, password, _ := strings.Cut(credential, ":")
	file := p.held.Load()
	hash, there := file.hashes[name]
	if !there {
		hash = file.decoy
	}
	err := bcrypt.CompareHashAndPassword(hash, []byte(password))
	if err != nil || !there {
		return nil, wrongPassword, nil
	}
	return p.desk.account(metric.Principal{User: BasicUser + name}), "", nil
}
