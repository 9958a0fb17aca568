package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

func TestFault(t *testing.T) {
	fault := NewFault("Sync", "is %d; must be at least %s, which is %d", 1, Field("Flush"), 2)
	if got, want := fault.Error(), "Sync is 1; must be at least Flush, which is 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	flag := func(field Field) string { return "--" + strings.ToLower(string(field)) }
	if got, want := fault.Text(flag), "is 1; must be at least --flush, which is 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if wrapped := NewFault("File", "cannot be read: %w", fs.ErrNotExist); !errors.Is(wrapped, fs.ErrNotExist) {
		t.Errorf("%v does not wrap its cause", wrapped)
	}
}

func TestFaults(t *testing.T) {
	var none, inner, outer Faults
	if err := none.Join(); err != nil {
		t.Errorf("%v, want no error", err)
	}
	inner.Add("Age", "is %d; must be at least %s", 1, Field("Retry"))
	inner = append(inner, errors.New("untyped"))
	outer.Add("Address", "is empty")
	outer.AddNested("Pending.", inner.Join())
	want := []string{"Address is empty", "Pending.Age is 1; must be at least Pending.Retry", "untyped"}
	if got := outer.Join().Error(); got != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSplit(t *testing.T) {
	one, two, three := errors.New("1"), errors.New("2"), errors.New("3")
	context := fmt.Errorf("while starting: %w", errors.Join(one, two))
	got := Split(nil, errors.Join(one, errors.Join(two, three)), context)
	if len(got) != 4 || got[0] != one || got[1] != two || got[2] != three || got[3] != context {
		t.Errorf("%q: want 1, 2, 3 and the error with context as a whole", got)
	}
}

func TestHostPort(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:0": "", ":65535": "", "[::1]:80": "",
		"8080":           `A is "8080"; must be host:port, as in h:1`,
		"":               `A is ""; must be host:port, as in h:1`,
		"::1:80":         `A is "::1:80"; must be host:port, as in h:1`,
		"localhost:http": `A is "localhost:http"; its port must be a number from 0 to 65535, as in h:1`,
		":65536":         `A is ":65536"; its port must be a number from 0 to 65535, as in h:1`,
	} {
		var faults Faults
		faults.AddUnlessHostPort("A", address, "h:1")
		got := ""
		if err := faults.Join(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[Bytes]string{0: "0", 1: "1", 1023: "1023", 1024: "1KiB", 1536: "1536", 3 << 20: "3MiB", 4096 << 20: "4GiB"} {
		if got := n.String(); got != want {
			t.Errorf("%d: %q, want %q", uint64(n), got, want)
		}
	}
}
