package record

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

// names are the senders of a metric, the newest first.
func (p *Pushers) names(namespace, name string) string {
	var all []string
	for _, metricSender := range p.Of(namespace, name) {
		all = append(all, metricSender.Name)
	}
	return strings.Join(all, " ")
}

func TestPushersAreRemembered(t *testing.T) {
	p := NewPushers()
	web := podSender(1, "web-1")
	web.Pod.ServiceAccount = "front"
	p.Pushed(web, "shop", []byte("hits"))
	p.Pushed(web, "shop", []byte("hits"))
	p.Pushed(&metric.Sender{Key: 3, Principal: &metric.Principal{Namespace: "ops", Name: "robot"}}, "shop", []byte("hits"))
	p.Pushed(web, "bank", []byte("hits"))
	p.Pushed(web, "shop", []byte("jobs"))
	p.Pushed(nil, "shop", []byte("hits"))
	got := p.Of("shop", "hits")
	want := []inspect.MetricSender{{Metric: "shop", Namespace: "ops", Name: "robot", Sort: OfAccount},
		{Metric: "shop", Namespace: "shop", Name: "web-1", Sort: OfPod, Account: "front"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
	p.Pushed(web, "shop", []byte("hits"))
	if got := p.names("shop", "hits"); got != "web-1 robot" {
		t.Errorf("after another push: %s", got)
	}
	if got := p.Of("", "hits"); len(got) != 3 || got[0].Metric != "bank" {
		t.Errorf("of all namespaces: %+v", got)
	}
	if got := p.Of("mail", "hits"); len(got) != 0 {
		t.Errorf("of a namespace without it: %+v", got)
	}
}

// A metric has a thousand pods: some of them are remembered, and those of a rollout follow.
func TestPushersOfAMetricAreBounded(t *testing.T) {
	p := NewPushers()
	for i := range 1000 {
		p.Pushed(podSender(uint64(i+1), fmt.Sprint("old-", i)), "shop", []byte("hits"))
	}
	if n := len(p.Of("shop", "hits")); n != inspect.MetricSenders {
		t.Fatalf("%d senders", n)
	}
	for i := range 1000 {
		p.Pushed(podSender(uint64(i+2000), fmt.Sprint("new-", i)), "shop", []byte("hits"))
	}
	if got := p.names("shop", "hits"); strings.Contains(got, "old") {
		t.Errorf("after a rollout: %s", got)
	}
}

func TestMemoryOfPushersIsBounded(t *testing.T) {
	p := NewPushers()
	p.max = 100
	long := []byte(strings.Repeat("x", 1<<20))
	p.Pushed(podSender(1, "web-1"), "shop", long)
	for i := range 5000 {
		p.Pushed(podSender(uint64(i), "web"), "shop", fmt.Appendf(nil, "m%d", i))
	}
	if len(p.all) != 100 {
		t.Errorf("%d metrics are remembered, want 100", len(p.all))
	}
	if got := p.names("shop", "m4999"); got != "web" {
		t.Errorf("the newest was forgotten: %q", got)
	}
	if got := p.names("shop", string(long)); got != "" {
		t.Errorf("a name of 1 MiB was kept")
	}
}

func TestPushersAtOnce(t *testing.T) {
	p := NewPushers()
	p.max = 20
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 2000 {
				p.Pushed(podSender(uint64(g*10000+i%50), fmt.Sprint("p", i%50)), "shop", fmt.Appendf(nil, "m%d", i%30))
				if i%100 == 0 {
					p.Of("", "m1")
				}
			}
		})
	}
	all.Wait()
	if len(p.all) > 20 {
		t.Errorf("%d metrics", len(p.all))
	}
	var none *Pushers
	none.Pushed(podSender(1, "p"), "shop", []byte("a"))
	none.Of("", "a")
}

func BenchmarkPushed(b *testing.B) {
	for name, senders := range map[string]int{"one sender": 1, "many senders": 1000} {
		b.Run(name, func(b *testing.B) {
			p := NewPushers()
			from := make([]*metric.Sender, senders)
			for i := range from {
				from[i] = podSender(uint64(i+1), fmt.Sprint("web-", i))
			}
			metrics := [][]byte{[]byte("http_requests"), []byte("latency"), []byte("jobs"), []byte("queue_depth"), []byte("busy")}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.Pushed(from[i%senders], "shop", metrics[i%len(metrics)])
			}
		})
	}
}
