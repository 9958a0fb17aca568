package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// Interval is the time between two readings, and Step that of the points that windows are made of.
const (
	Interval = time.Second
	Step     = 10 * time.Second
)

// Config says where the files are.
type Config struct {
	// Folder is the root of the node's cgroups; empty: nothing is read.
	Folder string
}

// Source reads the files of one node. One goroutine uses it.
type Source struct {
	root, pods string
	last       time.Time            // of the last reading
	started    map[string]time.Time // of each container of the last reading, by ID; zero: before the first reading
	text       []byte
}

// New prepares reading. The error says what the folder has instead of the cgroups of a node.
func New(cfg Config) (*Source, error) {
	pods, err := findPods(cfg.Folder)
	if err != nil {
		return nil, fmt.Errorf("the cgroups cannot be read: %w", err)
	}
	return &Source{root: cfg.Folder, pods: pods, text: make([]byte, 0, 8<<10)}, nil
}

// maxContainers bounds a page, as that of a kubelet.
const maxContainers = 20_000

// Read reads what is used now. A container that ends meanwhile is left out.
func (s *Source) Read(context.Context) (*metric.UsagePage, error) {
	now := time.Now()
	page := &metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{}, Unnamed: map[string]metric.UsageReading{}, Step: Step}
	node, err := s.reading(s.root)
	if err != nil {
		return nil, err
	}
	page.Readings[metric.Container{}] = node
	started := map[string]time.Time{}
	err = containers(s.pods, func(id, folder string) {
		r, err := s.reading(folder)
		switch {
		case unlessGone(err) != nil:
			page.Fault("%v", err)
		case err == nil:
			r.Started = s.startOf(id, folder, now)
			started[id], page.Unnamed[id] = r.Started, r
		}
	})
	if len(started) > maxContainers {
		return nil, fmt.Errorf("%s has %d containers; must have at most %d", s.pods, len(started), maxContainers)
	}
	if err == nil {
		s.started, s.last = started, now
	}
	return page, err
}

// startOf finds when a container started: its folder was made since the last reading. That of one which is older is not
// known: the times of these files are those of the kernel's memory of them.
func (s *Source) startOf(id, folder string, now time.Time) time.Time {
	if started, known := s.started[id]; known || s.last.IsZero() {
		return started
	}
	if made, err := os.Stat(folder); err == nil && made.ModTime().After(s.last) && made.ModTime().Before(now) {
		return made.ModTime()
	}
	return now
}

// reading reads a folder. Of the root, whose memory the kernel does not add up, it is what cAdvisor takes: what is not
// of files, and what is. A kernel without the memory controller says no memory.
func (s *Source) reading(folder string) (r metric.UsageReading, err error) {
	micros, err := s.field(folder, "cpu.stat", "usage_usec")
	if err != nil {
		return r, err
	}
	r.CPU, r.CPUAt = time.Duration(micros)*time.Microsecond, time.Now()
	used, err := s.whole(folder, "memory.current")
	if errors.Is(err, os.ErrNotExist) {
		anonymous, err := s.field(folder, "memory.stat", "anon")
		if errors.Is(err, os.ErrNotExist) {
			return r, s.stillThere(folder)
		}
		files, otherErr := s.field(folder, "memory.stat", "file")
		if err = errors.Join(err, otherErr); err != nil {
			return r, err
		}
		used = anonymous + files
	} else if err != nil {
		return r, err
	}
	inactive, err := s.field(folder, "memory.stat", "inactive_file")
	r.Memory, r.MemoryAt = used-min(inactive, used), time.Now()
	return r, err
}

// stillThere is the error of a folder that has gone.
func (s *Source) stillThere(folder string) error {
	_, err := os.Stat(folder)
	return err
}

// field reads the number after a word at the start of a line.
func (s *Source) field(folder, file, word string) (uint64, error) {
	text, err := s.read(folder, file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if name, number, ok := bytes.Cut(line, []byte(" ")); ok && string(name) == word {
			return s.number(folder, file, number)
		}
	}
	return 0, fmt.Errorf("%s has no %s", filepath.Join(folder, file), word)
}

func (s *Source) whole(folder, file string) (uint64, error) {
	text, err := s.read(folder, file)
	if err != nil {
		return 0, err
	}
	return s.number(folder, file, text)
}

// number reads a number that is far from the limit of the type.
func (s *Source) number(folder, file string, text []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 53)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(folder, file), err)
	}
	return n, nil
}

// read reads a file into the buffer of the source, which the next one takes.
func (s *Source) read(folder, file string) ([]byte, error) {
	f, err := os.Open(filepath.Join(folder, file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Read(s.text[:cap(s.text)])
	if err != nil {
		return nil, err
	}
	return s.text[:n], nil
}

// isRemoved reports whether a folder was removed while a file of it was open.
func isRemoved(err error) bool { return errors.Is(err, syscall.ENODEV) }
