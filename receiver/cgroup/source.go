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
	pods string
	node files
	all  []container // as listed last
	// listed is when they were listed; unlisted counts the readings since then, or is listEvery once one has gone.
	listed   time.Time
	unlisted int
	text     []byte
}

// container is a container's folder.
type container struct {
	id      string
	started time.Time // zero: before the first reading
	files
}

// files are those of a folder that are read.
type files struct{ folder, cpu, memory, memoryStat string }

func filesOf(folder string) files {
	return files{folder, filepath.Join(folder, "cpu.stat"), filepath.Join(folder, "memory.current"),
		filepath.Join(folder, "memory.stat")}
}

// listEvery is the number of readings with which the folders are listed again: a folder has some 70 files. A container that
// starts waits for its name for a second or two anyway, and what it uses meanwhile counts.
const listEvery = 3

// New prepares reading. The error says what the folder has instead of the cgroups of a node.
func New(cfg Config) (*Source, error) {
	pods, err := findPods(cfg.Folder)
	if err != nil {
		return nil, fmt.Errorf("the cgroups cannot be read: %w", err)
	}
	return &Source{pods: pods, node: filesOf(cfg.Folder), unlisted: listEvery, text: make([]byte, 0, 8<<10)}, nil
}

// maxContainers bounds a page, as that of a kubelet.
const maxContainers = 20_000

// Read reads what is used now. A container that ends meanwhile is left out.
func (s *Source) Read(context.Context) (*metric.UsagePage, error) {
	page := &metric.UsagePage{Readings: map[metric.Container]metric.UsageReading{},
		Unnamed: make(map[string]metric.UsageReading, len(s.all)), Step: Step}
	node, err := s.reading(&s.node)
	if err != nil {
		return nil, err
	}
	page.Readings[metric.Container{}] = node
	if s.unlisted++; s.unlisted >= listEvery {
		if err := s.list(); err != nil {
			return nil, err
		}
	}
	for i := range s.all {
		c := &s.all[i]
		switch r, err := s.reading(&c.files); {
		case err == nil:
			r.Started = c.started
			page.Unnamed[c.id] = r
		case unlessGone(err) == nil:
			s.unlisted = listEvery
		default:
			page.Fault("%v", err)
		}
	}
	return page, nil
}

// list finds the containers that there are.
func (s *Source) list() error {
	known := make(map[string]*container, len(s.all))
	for i := range s.all {
		known[s.all[i].id] = &s.all[i]
	}
	now, all := time.Now(), make([]container, 0, len(s.all))
	err := containers(s.pods, func(id, folder string) {
		if before := known[id]; before != nil && before.folder == folder {
			all = append(all, *before)
			return
		}
		all = append(all, container{id, s.startOf(folder, now), filesOf(folder)})
	})
	if len(all) > maxContainers {
		return fmt.Errorf("%s has %d containers; must have at most %d", s.pods, len(all), maxContainers)
	}
	if err == nil {
		s.all, s.listed, s.unlisted = all, now, 0
	}
	return err
}

// startOf finds when a container started: its folder was made since the last list. That of one which is older is not
// known: the times of these files are those of the kernel's memory of them. The time of a folder changes with folders in
// it, so that of a file counts if it is earlier, as in cAdvisor.
func (s *Source) startOf(folder string, now time.Time) time.Time {
	if s.listed.IsZero() {
		return time.Time{}
	}
	started := now
	for _, path := range []string{folder, filepath.Join(folder, "cgroup.events")} {
		if made, err := os.Stat(path); err == nil && made.ModTime().After(s.listed) && made.ModTime().Before(started) {
			started = made.ModTime()
		}
	}
	return started
}

// reading reads a folder. Of the root, whose memory the kernel does not add up, it is what cAdvisor takes: what is not
// of files, and what is. A kernel without the memory controller says no memory.
func (s *Source) reading(f *files) (r metric.UsageReading, err error) {
	micros, err := s.field(f.cpu, "usage_usec")
	if err != nil {
		return r, err
	}
	r.CPU, r.CPUAt = time.Duration(micros)*time.Microsecond, time.Now()
	used, err := s.whole(f.memory)
	if errors.Is(err, os.ErrNotExist) {
		anonymous, err := s.field(f.memoryStat, "anon")
		if errors.Is(err, os.ErrNotExist) {
			_, err = os.Stat(f.folder) // it has gone, or has no memory
			return r, err
		}
		ofFiles, otherErr := s.field(f.memoryStat, "file")
		if err = errors.Join(err, otherErr); err != nil {
			return r, err
		}
		used = anonymous + ofFiles
	} else if err != nil {
		return r, err
	}
	inactive, err := s.field(f.memoryStat, "inactive_file")
	r.Memory, r.MemoryAt = used-min(inactive, used), time.Now()
	return r, err
}

// field reads the number after a word at the start of a line.
func (s *Source) field(file, word string) (uint64, error) {
	text, err := s.read(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if name, number, ok := bytes.Cut(line, []byte(" ")); ok && string(name) == word {
			return numberOf(file, number)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, word)
}

func (s *Source) whole(file string) (uint64, error) {
	text, err := s.read(file)
	if err != nil {
		return 0, err
	}
	return numberOf(file, text)
}

// numberOf reads a number that is far from the limit of the type.
func numberOf(file string, text []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 53)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// read reads a file into the buffer of the source, which the next one takes. It is three calls of the kernel: an os.File
// would be made known to Go's poller, too, some hundred times a second.
func (s *Source) read(path string) ([]byte, error) {
	f, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	n, err := syscall.Read(f, s.text[:cap(s.text)])
	_ = syscall.Close(f)
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return s.text[:n], nil
}

// isRemoved reports whether a folder was removed while a file of it was open.
func isRemoved(err error) bool { return errors.Is(err, syscall.ENODEV) }
