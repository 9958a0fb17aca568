package push

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// slowDeletions are a table in which each deletion takes a while.
type slowDeletions struct {
	*table
	takes time.Duration
	mu    sync.Mutex
	began []time.Time
	names []string
}

func (s *slowDeletions) Delete(q metric.Query) int {
	s.mu.Lock()
	s.began, s.names = append(s.began, time.Now()), append(s.names, q.Expression.Name)
	s.mu.Unlock()
	time.Sleep(s.takes)
	return 1
}

// Deletions, which other replicas repeat, leave these three quarters of their time, however many pods of a namespace send them; and
// one of another namespace waits for one of them. Without other replicas there is no rest.
func TestDeletionsLeaveTime(t *testing.T) {
	t.Run("replicas", func(t *testing.T) { deletionsFollow(t, new(others), 4) })
	t.Run("one server", func(t *testing.T) { deletionsFollow(t, nil, 1) })
}

// deletionsFollow checks that each of many deletions begins so many times the work of one after the one before.
func deletionsFollow(t *testing.T, replicas Replicas, times time.Duration) {
	inVirtualTime(t, func(t *testing.T) {
		const most, takes = 100, 5 * time.Millisecond
		deletions := &slowDeletions{takes: takes}
		h := start(t, inMemory, func(_ *Config, p *Parts) {
			deletions.table, p.Replicas = p.Reader.(*table), replicas
			p.Reader, p.Senders, p.Trust = deletions, podsOfNamespaces{}, trusting{}
		})
		answers := make(chan int, most+1)
		remove := func(namespace, pod int, name string) {
			go func() {
				other := *h
				other.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
					DialContext: func(context.Context, string, string) (net.Conn, error) {
						return h.memory.dialFrom(&net.TCPAddr{IP: net.IPv4(127, 0, byte(namespace), byte(pod)), Port: 1})
					}}}
				status, _ := other.do("DELETE", "/v1/namespaces/shop/external/"+name, "")
				answers <- status
			}()
			synctest.Wait()
		}
		for i := range most {
			remove(1, i%8, fmt.Sprint("flood", i))
		}
		remove(2, 1, "other")
		for range most + 1 {
			if status := <-answers; status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		}
		for i, at := range deletions.began[1:] {
			if after := at.Sub(deletions.began[i]); after != times*takes {
				t.Fatalf("deletion %d began %v after the one before; want %v", i+1, after, times*takes)
			}
		}
		if got := deletions.names[2]; got != "other" {
			t.Errorf("the third deletion is %s; want that of another namespace", got)
		}
	})
}
