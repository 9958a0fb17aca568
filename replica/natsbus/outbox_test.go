package natsbus

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// put never waits, though the connection takes nothing: it keeps outboxBytes and drops the rest. A part
// of it is for small messages.
func TestOutboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, release := newOutbox(), make(chan struct{})
		sent, kept := 0, 0
		go o.send(func(string, []byte) {
			<-release
			sent++
		})
		message := bytes.Repeat([]byte("x"), 1<<20)
		_ = o.put("first", message)
		synctest.Wait() // the first is being sent
		for kept = 1; ; kept++ {
			if busy := o.busy(); busy != (kept > outboxBytes>>21) {
				t.Errorf("with %d MiB, it is busy: %v", kept, busy)
			}
			if err := o.put("more", message); errors.Is(err, errFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if want := (outboxBytes - smallBytes) >> 20; kept != want {
			t.Errorf("kept %d MiB of large messages, want %d", kept, want)
		}
		small := 0
		for o.put("small", message[:64<<10]) == nil {
			small++
		}
		if kept += small; small != smallBytes>>16 {
			t.Errorf("kept %d small messages beside large ones, want %d", small, smallBytes>>16)
		}
		close(release)
		synctest.Wait()
		if sent != kept || o.busy() {
			t.Errorf("sent %d messages, want %d; it is busy: %v", sent, kept, o.busy())
		}
		if err := o.put("again", message); err != nil {
			t.Errorf("after the flood: %v", err)
		}
		for range 200 {
			_ = o.put("small", []byte("x"))
			synctest.Wait()
		}
		if kept := cap(o.filling.data); kept > 1<<10 {
			t.Errorf("keeps %d bytes after the flood, want little", kept)
		}
		o.close()
	})
}

// Messages keep their order and bytes, and close sends what was put before.
func TestOutboxKeepsOrder(t *testing.T) {
	o, done := newOutbox(), make(chan []string)
	go func() {
		var got []string
		o.send(func(subject string, message []byte) { got = append(got, subject+" "+string(message)) })
		done <- got
	}()
	message := []byte{}
	for i := range 1000 {
		message = fmt.Append(message[:0], i)
		must(t, o.put("subject", message))
	}
	o.close()
	o.close()
	got := <-done
	if len(got) != 1000 {
		t.Fatalf("%d messages, want 1000", len(got))
	}
	for i, one := range got {
		if want := fmt.Sprintf("subject %d", i); one != want {
			t.Fatalf("message %d is %q, want %q", i, one, want)
		}
	}
	if err := o.put("subject", message); !errors.Is(err, errClosed) {
		t.Errorf("after close: %v", err)
	}
}
