package receiver

import "golang.org/x/sys/unix"

// A reuseportGroup is the sockets that share a UDP address. The kernel spreads datagrams over them,
// by the hash of their addresses. But each socket in use costs wake-ups of its own, so the first
// one gets everything until its goroutine doesn't keep up. The goroutine of the first socket owns
// it.
type reuseportGroup struct {
	fd     int // of the first socket
	spread bool
}

// concentrate directs all datagrams to the first socket, by a program that answers 0. A kernel that
// can't do that spreads them.
func (g *reuseportGroup) concentrate() {
	first := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	program := unix.SockFprog{Len: 1, Filter: &first}
	g.spread = unix.SetsockoptSockFprog(g.fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &program) != nil
}

// spreadOut lets the kernel spread datagrams, for good: a way back would reorder a sender's
// datagrams again.
func (g *reuseportGroup) spreadOut() {
	if !g.spread {
		g.spread = true
		_ = unix.SetsockoptInt(g.fd, unix.SOL_SOCKET, unix.SO_DETACH_REUSEPORT_BPF, 0)
	}
}
