package record

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
)

func podSender(key uint64, name string) *metric.Sender {
	return &metric.Sender{Key: key, Pod: &metric.Pod{Namespace: "shop", Name: name}}
}

func because(text string) func() string { return func() string { return text } }

func TestRejectionsAreCountedByCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		senders := NewSenders()
		r := NewRejections(senders)
		web := podSender(1, "web-1")
		began := time.Now()
		r.Add(&Sample{"udp", web, metric.BadRate, []byte("a"), []byte("a:1|c|@0"), 0, because("first")}, 1)
		r.Add(&Sample{"udp", web, metric.BadRate, []byte("a"), []byte("a:1|c|@7"), 0, because("a second later")}, 1)
		time.Sleep(2 * time.Second)
		r.Add(&Sample{"udp", web, metric.BadRate, []byte("a"), []byte("a:1|c|@9"), 0, because("newest")}, 1024)
		r.Add(&Sample{"udp", web, metric.BadName, []byte("b"), nil, 0, because("name")}, 1)
		r.Add(&Sample{"udp", nil, metric.Malformed, nil, []byte("junk"), 0, because("junk")}, 1)
		r.Add(&Sample{"udp", web, metric.Ignored, []byte("x"), nil, 0, because("ignored")}, 1)
		all := r.All()
		if len(all) != 3 || all[0].Reason != "malformed" || all[0].Sender != "" || all[1].Metric != "b" {
			t.Fatalf("%+v", all)
		}
		want := inspect.Rejection{Namespace: "shop", Sender: "web-1", Receiver: "udp", Reason: "rate", Metric: "a", Message: "newest",
			Example: "a:1|c|@9", Count: 1026, First: began, Last: time.Now()}
		if all[2] != want {
			t.Errorf("%+v, want\n%+v", all[2], want)
		}
		if got := senders.All(); len(got) != 1 || got[0].Rejected != 1027 || got[0].Name != "web-1" || got[0].Sort != OfPod {
			t.Errorf("senders %+v", got)
		}
	})
}

// A later namespace of the name is shown no line, no metric and no sender of the former one.
func TestRecordsEndWithTheirNamespace(t *testing.T) {
	senders, pushers := NewSenders(), NewPushers()
	r := NewRejections(senders)
	shop := podSender(1, "web-1")
	bank := &metric.Sender{Key: 2, Pod: &metric.Pod{Namespace: "bank", Name: "web-1"}}
	for range 2 { // it may push again
		for _, from := range []*metric.Sender{shop, bank} {
			r.Add(&Sample{"udp", from, metric.BadRate, []byte("a"), []byte("a:1|c|@0"), 0, because("rate")}, 1)
			pushers.Pushed(from, "shop", []byte("hits"))
			pushers.Pushed(from, "bank", []byte("hits"))
		}
		if len(r.All()) != 2 || len(senders.All()) != 2 || pushers.names("shop", "hits") != "web-1 web-1" {
			t.Errorf("before: %+v, %+v, %q", r.All(), senders.All(), pushers.names("shop", "hits"))
		}
		r.EndNamespace("shop")
		senders.EndNamespace("shop")
		pushers.EndNamespace("shop")
		if all := r.All(); len(all) != 1 || all[0].Namespace != "bank" {
			t.Errorf("rejections: %+v", all)
		}
		if all := senders.All(); len(all) != 1 || all[0].Namespace != "bank" {
			t.Errorf("senders: %+v", all)
		}
		if left := pushers.Of("", "hits"); len(left) != 1 || left[0].Metric != "bank" || left[0].Namespace != "bank" {
			t.Errorf("pushers: %+v", left)
		}
	}
}

func TestMemoryOfRejectionsIsBounded(t *testing.T) {
	synctest.Test(t, testMemoryOfRejections)
}

func testMemoryOfRejections(t *testing.T) {
	r := NewRejections(nil)
	long := []byte(strings.Repeat("x", 16<<10))
	for i := range 3 * maxRejections {
		if i%100 == 0 {
			time.Sleep(time.Second) // more would be masked as a whole
		}
		r.Add(&Sample{"udp", podSender(uint64(i), fmt.Sprint("p", i)), metric.BadName, long, long, 0, because(string(long))}, 1)
		r.Add(&Sample{"udp", podSender(9, "often"), metric.BadName, nil, nil, 0, because("")}, 1)
	}
	all := r.All()
	if len(all) != maxRejections || len(r.entries) != maxRejections {
		t.Fatalf("%d remembered, want %d", len(all), maxRejections)
	}
	often := false
	for _, rejection := range all {
		often = often || rejection.Sender == "often" && rejection.Count == 3*maxRejections
		if n := len(rejection.Metric) + len(rejection.Message) + len(rejection.Example); n > 1000 {
			t.Fatalf("an entry of %d bytes", n)
		}
	}
	if !often {
		t.Error("the entry that is used all the time was forgotten")
	}
}

// The rejections of a namespace, whose pods send lines of ever new names, hide none of another one.
func TestRejectionsOfANamespaceHideNoOther(t *testing.T) {
	r := NewRejections(nil)
	bank := &metric.Sender{Key: 2, Pod: &metric.Pod{Namespace: "bank", Name: "web-1"}}
	r.Add(&Sample{"udp", bank, metric.OverLimit, []byte("orders"), nil, 0, because("limit")}, 1)
	for i := range 2 * maxRejections {
		r.Add(&Sample{"udp", podSender(1, "web-1"), metric.BadRate, fmt.Append(nil, "m", i), nil, 0, because("rate")}, 1)
	}
	all := r.All()
	if last := all[len(all)-1]; len(all) != maxRejections || last.Namespace != "bank" || last.Metric != "orders" {
		t.Errorf("%d rejections are remembered, the oldest %+v", len(all), last)
	}
	r.EndNamespace("shop")
	if all := r.All(); len(all) != 1 || r.count.Len() != 1 {
		t.Errorf("%+v, %v", all, r.count)
	}
}

func TestSendersAreNamedByWhatDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSenders()
		address := netip.MustParseAddr("192.0.2.7")
		s.Heard(podSender(1, "web-1"))
		s.Heard(&metric.Sender{Key: 2, Address: address})
		s.Heard(&metric.Sender{Key: 3, Address: address, Principal: &metric.Principal{User: "system:serviceaccount:ops:robot", Namespace: "ops", Name: "robot"}})
		s.Heard(&metric.Sender{Key: 4, Principal: &metric.Principal{User: "jane"}})
		s.Heard(nil)
		time.Sleep(time.Minute)
		s.Heard(podSender(9, "web-1")) // it has another address now
		got := map[string]Sender{}
		for _, sender := range s.All() {
			got[sender.Sort+" "+sender.Namespace+"/"+sender.Name] = sender
		}
		for _, want := range []string{"pod shop/web-1", "address /192.0.2.7", "account ops/robot", "account /jane"} {
			if _, ok := got[want]; !ok || len(got) != 4 {
				t.Errorf("%v, want %s", got, want)
			}
		}
		if heard := got["pod shop/web-1"].LastHeard; !heard.Equal(time.Now()) {
			t.Errorf("heard %s, want now", heard)
		}
	})
}

func TestMemoryOfSendersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSenders()
		s.max = 100
		for i := range 1000 {
			s.Heard(podSender(uint64(i), fmt.Sprint("p", i)))
			time.Sleep(time.Millisecond)
			s.Heard(podSender(5000, "often"))
		}
		if got := len(s.All()); got != 100 {
			t.Errorf("%d remembered, want 100", got)
		}
		if s.all[name{"shop", "often", OfPod}] == nil {
			t.Error("the sender that is heard all the time was forgotten")
		}
	})
}

func TestRecordsAtOnce(t *testing.T) {
	s := NewSenders()
	r := NewRejections(s)
	s.max, r.max = 20, 20
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 2000 {
				from := podSender(uint64(i%50), fmt.Sprint("p", i%50))
				s.Heard(from)
				r.Add(&Sample{"udp", from, metric.BadName, []byte{byte('a' + g)}, nil, 0, because("")}, 1)
				if i%100 == 0 {
					s.All()
					r.All()
				}
			}
		})
	}
	all.Wait()
	if len(s.All()) > 20 || len(r.All()) > 20 {
		t.Errorf("%d senders, %d rejections", len(s.All()), len(r.All()))
	}
}

func TestNothingIsRemembered(*testing.T) {
	var s *Senders
	var r *Rejections
	s.Heard(podSender(1, "p"))
	s.HeardLine(podSender(1, "p"))
	r.Add(&Sample{Reason: metric.BadName}, 1)
	s.All()
	r.All()
}

func TestNewLinesAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSenders()
		for range 3 * linesPerClock {
			s.HeardLine(podSender(1, "web-1"))
			time.Sleep(time.Second)
		}
		if ago := time.Since(s.All()[0].LastHeard); ago > linesPerClock*time.Second {
			t.Errorf("heard %s ago, want at most %d new lines", ago, linesPerClock)
		}
		s.HeardLine(nil)
	})
}

func BenchmarkHeardLine(b *testing.B) {
	s := NewSenders()
	from := podSender(7, "web-1")
	for b.Loop() {
		s.HeardLine(from)
	}
}

func BenchmarkAdd(b *testing.B) {
	r := NewRejections(NewSenders())
	sample := Sample{"udp", podSender(7, "web-1"), metric.BadName, []byte("http_requests"), []byte("http_requests:x|c"), 0, because("x")}
	b.ReportAllocs()
	for b.Loop() {
		r.Add(&sample, 1)
	}
}

// A metric of a rejection is found by its name, although the rejection shows it masked or shortened.
func TestMetricsOfRejectionsAreFound(t *testing.T) {
	r := NewRejections(nil)
	for _, name := range []string{"hits", strings.Repeat("long_", 50), "token:abc"} {
		r.Add(&Sample{"udp", nil, metric.OverLimit, []byte(name), nil, 0, because("")}, 1)
		if got := r.All()[0].Metric; got != ShownMetric(name) {
			t.Errorf("%q is shown as %q, and looked for as %q", name, got, ShownMetric(name))
		}
	}
}

// Neither the line, nor its message or metric, has a secret that a client sent by mistake.
func TestSecretsAreNotKept(t *testing.T) {
	r := NewRejections(nil)
	for _, line := range []string{"Authorization: Bearer s3cr3t", "password=s3cr3t", "hits:1|x|#api-key:s3cr3t"} {
		name, _, _ := strings.Cut(line, ":")
		r.Add(&Sample{"tcp", nil, metric.Malformed, []byte(name), []byte(line), 0, because(`value is "s3cr3t"`)}, 1)
	}
	if got := fmt.Sprintf("%+v", r.All()); strings.Contains(got, "s3cr3t") {
		t.Error(got)
	}
	for key := range r.entries {
		if strings.Contains(key, "s3cr3t") {
			t.Errorf("key %q", key)
		}
	}
}
