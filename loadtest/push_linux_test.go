package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

func TestPushRequest(t *testing.T) {
	text := string(newPushRequest().of(42, 1_000_000_007))
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	for _, want := range []string{"PUT /metrics/job/batch/instance/0000042 HTTP/1.1", fmt.Sprintf("Content-Length: %d", len(body))} {
		if !strings.Contains(head, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	for _, want := range []string{"batch_records_total{stage=\"load\"} 1000000007\n", "batch_position 1000000007\n"} {
		if !strings.Contains(body, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if n := strings.Count(body, "# TYPE "); n != 3 || strings.Contains(text, "NN") {
		t.Errorf("%d families in\n%s", n, text)
	}
}

func TestPushBook(t *testing.T) {
	b := &pushTotals{}
	for range 5 {
		b.next(3)
	}
	if want := int64(3*firstNumber + 2 + 3 + 4); b.sum() != want || b.pushed != 5 {
		t.Errorf("%d pushes add up to %d: want 5 and %d", b.pushed, b.sum(), want)
	}
}

func TestAnswerLength(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: x\r\nContent-Length: 2\r\nDate: now\r\n\r\n{}"
	for n := range len(answer) {
		if _, whole := answerLength([]byte(answer[:n])); whole {
			t.Fatalf("%q is said to be whole", answer[:n])
		}
	}
	if length, whole := answerLength([]byte(answer)); !whole || length != len(answer) {
		t.Errorf("length %d, whole %v: want %d", length, whole, len(answer))
	}
}

// answeringServer answers each request with the bytes, after a delay.
func answeringServer(t *testing.T, answer string, after time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := make([]byte, 4<<10); ; {
					n, err := conn.Read(in)
					if err != nil {
						return
					}
					time.Sleep(after)
					for range bytes.Count(in[:n], []byte("PUT ")) {
						fmt.Fprint(conn, answer)
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

const yes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

// A server that is too slow for the rate delays later pushes, and their times show it (coordinated
// omission).
func TestPacedTimesCountFromWhenAPushWasDue(t *testing.T) {
	p, err := openPushers(answeringServer(t, yes, 10*time.Millisecond), 1, 1, &pushTotals{})
	must(t, err)
	defer p.close()
	times, err := p.push(t.Context(), 20, 1000) // ten times what it takes
	must(t, err)
	if last := times[19]; last < 150*time.Millisecond {
		t.Errorf("the last of 20 pushes took %s: want some 180ms, for it waited for the others", last)
	}
}

func TestPushersSayWhatIsWrong(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nbad": "400 Bad Request",
		yes + yes: "answer to a push",
	} {
		p, err := openPushers(answeringServer(t, answer, 0), 2, 2, &pushTotals{})
		must(t, err)
		if _, err := p.push(t.Context(), 10, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v: want %q in it", err, want)
		}
		p.close()
	}
	p, err := openPushers(answeringServer(t, yes, time.Hour), 2, 2, &pushTotals{})
	must(t, err)
	defer p.close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.push(ctx, 10, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v: want that the time was over", err)
	}
}

func TestPercentiles(t *testing.T) {
	var d durations
	for i := range 200 {
		d = append(d, time.Duration(200-i)*time.Millisecond)
	}
	var got []float64
	for _, f := range d.figures("x", Aim{}) {
		got = append(got, f.Value)
	}
	if fmt.Sprint(got) != "[100 198 200]" {
		t.Errorf("p50, p99 and the longest of 1 to 200 ms are %v", got)
	}
	if percentile(nil, 99) != 0 {
		t.Error("a percentile of nothing is something")
	}
}
