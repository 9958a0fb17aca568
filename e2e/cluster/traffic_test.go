package cluster

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sendFrom sends one datagram from an address, as the pod that has it would.
func (c *cluster) sendFrom(t *testing.T, from netip.Addr, datagram string) {
	t.Helper()
	must(t, c.trySendFrom(from, datagram))
}

func (c *cluster) trySendFrom(from netip.Addr, datagram string) error {
	to := c.endpointOf(from).UDP
	if c.agent != nil {
		to = c.agent.UDP
	}
	return sendTo(to, from, datagram)
}

func sendTo(address string, from netip.Addr, datagram string) error {
	to, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), to)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(datagram))
	return err
}

// addressOf is a pod's.
func addressOf(t *testing.T, pod core.Pod) netip.Addr {
	t.Helper()
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		t.Fatalf("pod %s: %v", pod.Name, err)
	}
	return address
}

// load is traffic on the pods of a selector: it comes in at a rate and is spread evenly over those
// that are ready, as a load balancer would do it. Each pod sends a line for its share.
type load struct {
	perSecond atomic.Int64
	stop      context.CancelFunc
	done      sync.WaitGroup
	mu        sync.Mutex
	// pauses are the ends of pauses longer than mostPause; guarded by mu.
	pauses []time.Time
}

const (
	// mostPause is the longest pause of the load that can't move an autoscaler, also beside the gap of a restart.
	mostPause = 300 * time.Millisecond
	// pauseSeenFor is how long a pause shows: in the window of a metric, until the controller looks, and
	// until the autoscaler is stable again.
	pauseSeenFor = 45 * time.Second
)

// pausedBefore reports whether a pause of the load may have moved an autoscaler at a moment.
func (l *load) pausedBefore(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.pauses, func(end time.Time) bool {
		return end.Before(at.Add(time.Second)) && at.Sub(end) < pauseSeenFor
	})
}

// loadEvery is how often each pod sends.
const loadEvery = 100 * time.Millisecond

// startLoad spreads requests; line says what a pod sends that had n of them.
func (c *cluster) startLoad(t *testing.T, namespace, selector string, perSecond int64, line func(n int64) string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	l.perSecond.Store(perSecond)
	l.done.Go(func() { c.carry(ctx, l, namespace, selector, line) })
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

func (c *cluster) carry(ctx context.Context, l *load, namespace, selector string, line func(int64) string) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	owed := 0.0
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			owed += float64(l.perSecond.Load()) * now.Sub(last).Seconds()
			if now.Sub(last) > mostPause {
				l.mu.Lock()
				l.pauses = append(l.pauses, now)
				l.mu.Unlock()
			}
			last = now
			pods := c.running(ctx, namespace, selector)
			if len(pods) == 0 {
				continue
			}
			for i, pod := range pods {
				share := int64(owed) / int64(len(pods)-i)
				owed -= float64(share)
				if share > 0 {
					_ = c.trySendFrom(netip.MustParseAddr(pod.Status.PodIP), line(share))
				}
			}
		}
	}
}

// running are the pods that have an address.
func (c *cluster) running(ctx context.Context, namespace, selector string) (pods []core.Pod) {
	list, err := c.Kubernetes.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil
	}
	for _, pod := range list.Items {
		if pod.Status.PodIP != "" && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// requests is a line of the counter http_requests.
func requests(n int64) string { return fmt.Sprintf("http_requests:%d|c", n) }
