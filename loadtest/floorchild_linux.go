package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
)

// floorChild is the floor, seen from this side.
type floorChild struct {
	*child
	udp         netip.AddrPort
	bufferBytes int
	stdin       io.Closer
	stdout      *os.File
	answers     *json.Decoder
}

func startFloor(binary, way string, cpu int) (_ *floorChild, err error) {
	cmd := exec.Command(binary, "loadtest", "--"+FloorFlag, way)
	switch {
	case way == Blocking:
		cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	case cpu != anyCPU:
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	}
	f := &floorChild{}
	if f.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// A pipe of our own: that of the command would be closed as soon as the child ends, unread.
	var theirs *os.File
	if f.stdout, theirs, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, f.stdin.Close())
	}
	cmd.Stdout = theirs
	f.child, err = startChild(cmd, cpu)
	_ = theirs.Close()
	if err != nil {
		return nil, errors.Join(err, f.stdin.Close(), f.stdout.Close())
	}
	f.answers = json.NewDecoder(f.stdout)
	var opened floorOpened
	if err := f.answers.Decode(&opened); err != nil {
		return nil, errors.Join(fmt.Errorf("the floor does not say where it listens: %w", err), f.stop())
	}
	f.udp, f.bufferBytes = loopback(opened.Port), opened.BufferBytes
	return f, nil
}

// finish has it stop counting and say what it got.
func (f *floorChild) finish() (floorCounted, error) {
	var counted floorCounted
	if err := f.stdin.Close(); err != nil {
		return counted, err
	}
	if err := f.answers.Decode(&counted); err != nil {
		return counted, fmt.Errorf("the floor does not say what it got: %w", err)
	}
	return counted, nil
}

// stop ends it: the end of its input is all it takes.
func (f *floorChild) stop() error {
	_ = f.stdin.Close() // finish may have closed it
	return errors.Join(f.awaitEnd(), f.stdout.Close())
}
