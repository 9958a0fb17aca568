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

	"github.com/sluice-metrics/sluice/internal/config"
	"github.com/sluice-metrics/sluice/metric"
	"golang.org/x/crypto/bcrypt"
)

const (
	// A comparison takes 50 ms of a processor at cost 10, and twice as long for each step.
	minCost, maxCost = 8, 12
	// goodFor is how long a comparison is cached; a new file drops all.
	goodFor = 30 * time.Second
	// maxCompared limits the comparisons that wait, maxComparedEach those from one address. Sixteen addresses leave half of
	// them, and have others wait for a second and a half, on two cores and at cost 10.
	maxCompared     = 64
	maxComparedEach = 2
	maxFileBytes    = 1 << 20
)

// passwords checks passwords against a file.
type passwords struct {
	*checker
	path          string
	authenticator *Authenticator
	held          atomic.Pointer[passwordFile]
	// Slots of concurrent comparisons: knownSlot is reserved for known credentials.
	slots, knownSlot chan struct{}
}

// passwordFile is the file's content. It is immutable.
type passwordFile struct {
	text   []byte
	hashes map[string][]byte // by name
	// decoy is compared with if the name is unknown: it costs as much as the most expensive hash.
	decoy []byte
}

func newPasswords(path string, d *Authenticator) (*passwords, error) {
	p := &passwords{
		checker: newChecker(goodFor, maxCompared, maxComparedEach), path: path, authenticator: d,
		slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), knownSlot: make(chan struct{}, 1),
	}
	p.lookUp = p.compare
	_, err := p.load()
	return p, err
}

// load reads the file, and reports whether it has changed.
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

// follow reloads the file when it changes. If the file is unreadable, the earlier passwords stay
// valid.
func (p *passwords) follow(ctx context.Context) {
	PollFiles(ctx, p.load,
		func() {
			p.authenticator.log.Info("push: passwords were reloaded", "file", p.path, "names", len(p.held.Load().hashes))
		},
		func(err error) {
			p.authenticator.log.Error("push: passwords could not be reloaded; the earlier ones stay valid", "error",
				p.authenticator.worded(err))
		})
}

// parsePasswords parses lines of "name:bcrypt", the output of htpasswd -B. It skips empty lines and
// those that begin with #.
func parsePasswords(text []byte) (*passwordFile, error) {
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("the file has %d bytes; must have at most %d", len(text), maxFileBytes)
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
			return nil, fmt.Errorf(`line %d is not name:hash; use the output of "htpasswd -nB NAME"`, n)
		}
		if _, twice := f.hashes[name]; twice {
			return nil, fmt.Errorf("line %d: name %q is repeated; must be unique", n, name)
		}
		cost, err := bcrypt.Cost([]byte(hash))
		switch {
		case err != nil || len(hash) != 60:
			return nil, fmt.Errorf(`line %d: the password of %q is not a bcrypt hash; must have 60 characters and begin with $2y$, $2b$ or $2a$: use the output of "htpasswd -nB %s"`, n, name, name)
		case cost < minCost || cost > maxCost:
			return nil, fmt.Errorf("line %d: the bcrypt cost of %q is %d; must be from %d to %d, which bounds the time of a comparison", n, name, cost, minCost, maxCost)
		}
		f.hashes[name] = []byte(hash)
	}
	if len(f.hashes) == 0 {
		return nil, fmt.Errorf(`the file has no line of name:hash; add the output of "htpasswd -nB NAME"`)
	}
	return f, nil
}

// cost is that of the most expensive hash.
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

// compare implements checker.lookUp. It takes as long for an unknown name.
func (p *passwords) compare(ctx context.Context, credential string, known bool) (*Principal, string, error) {
	turns := p.slots
	if known {
		turns = p.knownSlot
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return nil, "", unavailable("the limit of waiting password comparisons is reached")
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
	return p.authenticator.account(metric.Principal{User: BasicUser + name}), "", nil
}

// lookEvery is the polling interval of files.
const lookEvery = 5 * time.Second

// PollFiles calls load periodically until ctx ends; load reads files and reports whether their
// content has changed. Then changed is called. An error is passed to failed, once until it changes.
func PollFiles(ctx context.Context, load func() (changed bool, err error), changed func(), failed func(error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		news, err := load()
		switch {
		case err == nil:
			if told = ""; news {
				changed()
			}
		case err.Error() != told:
			told = err.Error()
			failed(err)
		}
	}
}
