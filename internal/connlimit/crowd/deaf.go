package crowd

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// pipes are a listener without a network, whose connections have virtual time.
type pipes struct {
	net.Listener
	dialled chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	if conn := <-p.dialled; conn != nil {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p.dialled)
	return nil
}

// EndsDeafClients has a client of a gRPC server send on and read nothing, and requires that its connection ends within some
// time. It is called in a bubble of synctest, for a server that has not begun to run, and takes the place of its listener.
func EndsDeafClients(t *testing.T, listener *net.Listener, run func(context.Context) error, within time.Duration) {
	t.Helper()
	_ = (*listener).Close()
	dialled := make(chan net.Conn)
	*listener = pipes{*listener, dialled}
	defer Run(t, run)()
	theirs, own := net.Pipe()
	defer own.Close()
	dialled <- theirs
	frames := http2.NewFramer(own, own)
	var greeting sync.WaitGroup
	greeting.Go(func() { // while the server's is read: a pipe has no room
		_, _ = io.WriteString(own, http2.ClientPreface)
		_ = frames.WriteSettings()
	})
	for acknowledged := false; !acknowledged; { // the server has begun
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, is := frame.(*http2.SettingsFrame)
		acknowledged = is && settings.IsAck()
	}
	greeting.Wait()
	began := time.Now()
	_ = frames.WriteSettings() // is not acknowledged
	err := error(nil)
	for err == nil && time.Since(began) <= within {
		time.Sleep(time.Second)
		err = frames.WriteData(1, false, nil) // pings don't find it dead
	}
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
