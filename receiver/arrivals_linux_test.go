package receiver

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection that yields is closed before its goroutine removes it. Its descriptor may be another
// connection's by then.
func TestADescriptorOfAnotherConnection(t *testing.T) {
	pipe := func() (from, to int) {
		var ends [2]int
		must(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
		t.Cleanup(func() { _ = unix.Close(ends[1]) })
		return ends[0], ends[1]
	}
	var a arrivals
	defer a.close()
	first, second := &connection{}, &connection{}
	fd, _ := pipe()
	must(t, a.add(fd, first, false))
	from, to := pipe()
	if err := unix.Dup3(from, fd, unix.O_CLOEXEC); err != nil { // closes the first, and uses its number again
		t.Fatal(err)
	}
	_ = unix.Close(from)
	must(t, a.add(fd, second, false))
	a.remove(fd, first)
	if _, err := unix.Write(to, []byte("a:1|c\n")); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(a.unapplied(), source(second)) {
		t.Error("the data of the second connection is not looked for")
	}
	_ = unix.Close(fd)
	a.remove(fd, second)
	if n := len(a.watch.events); n != 0 {
		t.Errorf("room for %d events, want none", n)
	}
}
