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

// floorChild is the child process of a floor.
type floorChild struct {
	*child
	udp         netip.AddrPort
	bufferBytes int
	stdin       io.Closer
	stdout      *os.File
	answers     *json.Decoder
}

func startFloor(way string, cpu int) (*floorChild, error) {
	f, opened := &floorChild{}, floorOpened{}
	if err := f.start(way, cpu, &opened); err != nil {
		return nil, err
	}
	f.udp, f.bufferBytes = loopback(opened.Port), opened.BufferBytes
	return f, nil
}

// start starts a floor and reads the address.
func (f *floorChild) start(way string, cpu int, opened any) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), floorEnv+"="+way)
	switch {
	case way == blocking || way == gathering: // two: the scheduler does not know of the floor's sleeps
		cmd.Env = append(cmd.Env, "GOMAXPROCS=2")
	case cpu != anyCPU:
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	if f.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	// The command's own pipe would be closed unread as soon as the child ends.
	var theirs *os.File
	if f.stdout, theirs, err = os.Pipe(); err != nil {
		return errors.Join(err, f.stdin.Close())
	}
	cmd.Stdout = theirs
	f.child, err = startChild(cmd, cpu)
	_ = theirs.Close()
	if err != nil {
		return errors.Join(err, f.stdin.Close(), f.stdout.Close())
	}
	f.answers = json.NewDecoder(f.stdout)
	if err := f.answers.Decode(opened); err != nil {
		return errors.Join(fmt.Errorf("the floor does not say where it listens: %w", err), f.stop())
	}
	return nil
}

// finish ends the count and returns the result.
func (f *floorChild) finish() (counted floorCounted, err error) {
	err = f.conclude(&counted)
	return counted, err
}

// conclude ends the count and reads the result of any floor into counted.
func (f *floorChild) conclude(counted any) error {
	if err := f.stdin.Close(); err != nil {
		return err
	}
	if err := f.answers.Decode(counted); err != nil {
		return fmt.Errorf("the floor does not say what it got: %w", err)
	}
	return nil
}

// stop ends the process by closing the standard input.
func (f *floorChild) stop() error {
	_ = f.stdin.Close() // finish may have closed it
	return errors.Join(f.awaitEnd(), f.stdout.Close())
}
