//go:build unix && !linux

package receiver

import "sync/atomic"

// watch takes every source for one that may hold data.
type watch struct {
	fds   map[int]bool
	count atomic.Int32
}

func (w *watch) some() bool { return w.count.Load() > 0 }

func (w *watch) ready() (fds []int) {
	for fd := range w.fds {
		fds = append(fds, fd)
	}
	return fds
}

func (*watch) held(int) int { return 0 }

func (w *watch) add(fd int, _ bool) error {
	if w.fds == nil {
		w.fds = map[int]bool{}
	}
	w.fds[fd] = true
	w.count.Store(int32(len(w.fds)))
	return nil
}

func (w *watch) remove(fd int) {
	delete(w.fds, fd)
	w.count.Store(int32(len(w.fds)))
}

func (w *watch) close() {}
