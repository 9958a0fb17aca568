package database

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/sluice-metrics/sluice/store/format"
)

// TestProbeResult: where no probe can be run, a sound database is opened all the same and never set
// aside.
func TestProbeResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output, crash string
		exit          error
		is            error
	}{
		{"", "exec format error", errors.New("exit status 1"), errNotProbed},
		{"usage: another program\n", "", nil, errNotProbed},
		{probeBegun + "\n" + probeUnable + "no space left on device\n", "", nil, errNotProbed},
		{probeBegun + "\n" + probeFormat + "1\n" + probeFault + "table 3\n", "", nil, format.ErrDamaged},
		{probeBegun + "\n", "panic: a", errors.New("exit status 2"), format.ErrDamaged},
		{probeBegun + "\n" + probeFormat + strconv.Itoa(format.Version+1) + "\n" + probePassed + "\n", "", nil, format.ErrVersion},
		{probeBegun + "\n" + probeFormat + "1\n" + probePassed + "\n", "", nil, nil},
		{probeBegun + "\n" + probeFormat + "2\n" + probePassed + "\n", "", nil, nil},
		{probeBegun + "\n" + probeFormat + "3\n" + probePassed + "\n", "", nil, nil},
		{probeBegun + "\n" + probeFormat + "4\n" + probePassed + "\n", "", nil, nil},
		{probeBegun + "\n" + probeFormat + "5\n" + probePassed + "\n", "", nil, nil},
		{probeBegun + "\n" + probeFormat + "0\n" + probePassed + "\n", "", nil, nil},
	} {
		if err := probeResult("/data", c.output, c.exit, c.crash); !errors.Is(err, c.is) {
			t.Errorf("a probe with the output %q that ended with %v: %v, want %v", c.output, c.exit, err, c.is)
		}
	}
}

// TestProbe: a probe that passes, one that is canceled, and one that takes too long.
func TestProbe(t *testing.T) {
	t.Parallel()
	o := newOpener(t)
	opened, err := o.Open(t.Context(), InProcess)
	if err != nil || !opened.Fresh {
		t.Fatalf("fresh %v, %v", opened.Fresh, err)
	}
	mustWrite(t, opened.DB, "d", []byte("value"))
	must(t, opened.DB.Close())
	if err := o.probe(t.Context()); err != nil {
		t.Errorf("a probe of a sound database: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.probe(canceled); !errors.Is(err, errNotProbed) {
		t.Errorf("a probe that was canceled: %v", err)
	}
	o.ProbeTimeout = 1
	if err := o.probe(t.Context()); !errors.Is(err, format.ErrDamaged) {
		t.Errorf("a probe that takes too long: %v", err)
	}
}
