package identity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/metric"
)

// recorder keeps Events as "namespace/name reason: message".
type recorder []string

func (r *recorder) Event(o metric.Object, reason, _, message string) {
	*r = append(*r, fmt.Sprintf("%s/%s %s: %s", o.Namespace, o.Name, reason, message))
}

// claiming is a sample of a sender that describes a pod.
func claiming(from *metric.Sender, name, pod string) *metric.Sample {
	return &metric.Sample{Name: []byte(name), Kind: metric.Counter, Sender: from,
		Fields: []metric.Label{{Key: "namespace", Value: "shop"}, {Key: "pod", Value: pod}}}
}

func TestARefusalIsToldOnThePodThatSent(t *testing.T) {
	var events recorder
	f := NewRejections(New(clusterConfig(Strict), known{}, world{}), &events)
	var d metric.Description
	for range 3 {
		for _, name := range []string{"hits", "errors"} {
			if r := f.Describe(claiming(senders["web-1"], name, "web-2"), &d); r != metric.Identity {
				t.Fatalf("another pod's metric: %v", r)
			}
		}
	}
	want := `shop/web-1 MetricRefused: metric "hits" is rejected: "pods/web-2 in shop": this sender is "pods/web-1 in shop"`
	if len(events) != 2 || !strings.HasPrefix(events[0], want) {
		t.Errorf("Events %q, want two, the first %q", events, want)
	}
	for _, sender := range []string{"node", "outside", "new", "nil"} {
		f.Describe(claiming(senders[sender], "hits", "web-2"), &d)
	}
	if r := f.Describe(claiming(senders["web-1"], "own", "web-1"), &d); r != metric.Applied {
		t.Errorf("its own metric: %v", r)
	}
	if len(events) != 2 {
		t.Errorf("Events without a pod, or without a refusal: %q", events[2:])
	}
	f.Describe(claiming(senders["web-1"], "login?password=hunter2", "web-2"), &d)
	if len(events) != 3 || strings.Contains(events[2], "hunter2") {
		t.Errorf("a metric whose name has a secret: %q", events[2:])
	}
	events = events[:2]
	f.ObjectGone(web1.Object())
	if f.Describe(claiming(senders["web-1"], "hits", "web-2"), &d); len(events) != 3 || len(f.told) != 1 {
		t.Errorf("a pod of the same name: %q", events)
	}
}

// A sample of the previous holder of an address is no fault of the pod that has it now.
func TestASampleBeforeThePodIsNotToldOnIt(t *testing.T) {
	var events recorder
	f := NewRejections(New(clusterConfig(Strict), known{}, world{}), &events)
	young := *web1
	young.Created = time.Now().Unix()
	s := claiming(&metric.Sender{Key: 20, Address: senders["web-1"].Address, Pod: &young, Known: true}, "hits", "web-1")
	s.Arrived = time.Now().Add(-time.Minute).UnixNano()
	var d metric.Description
	if r := f.Describe(s, &d); r != metric.Identity || len(events) != 0 {
		t.Errorf("%v, Events %q", r, events)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events recorder
		f := NewRejections(New(clusterConfig(Strict), known{}, world{}), &events)
		var d metric.Description
		refuse := func(name string, pods int) {
			for i := range pods {
				pod := *web1
				pod.UID, pod.Name = fmt.Sprint(i), fmt.Sprintf("web-%d", i+100)
				f.Describe(claiming(&metric.Sender{Key: uint64(i + 100), Pod: &pod, Known: true}, name, "web-2"), &d)
			}
		}
		for i := range 100 {
			refuse(fmt.Sprintf("m%d", i), 1)
		}
		if len(events) != maxRejectedNames {
			t.Errorf("%d Events on a pod, want %d", len(events), maxRejectedNames)
		}
		refuse("x", 1000)
		if len(events) != maxRejections {
			t.Errorf("%d Events in a namespace, want %d", len(events), maxRejections)
		}
		f.Describe(claiming(&metric.Sender{Key: 99, Pod: teller, Known: true}, "x", "web-2"), &d)
		if !slices.ContainsFunc(events, func(one string) bool { return strings.HasPrefix(one, "bank/teller ") }) {
			t.Error("one namespace silences another")
		}
		time.Sleep(rejectionWindow)
		before := len(events)
		refuse("x", 1000)
		if n := len(events) - before; n != maxRejections {
			t.Errorf("%d more Events in the next window, want %d", n, maxRejections)
		}
		for i := range maxRejectedPods {
			f.told[fmt.Sprint(i)] = nil
		}
		time.Sleep(rejectionWindow)
		before = len(events)
		if f.Describe(claiming(&metric.Sender{Key: 98, Pod: teller, Known: true}, "y", "web-2"), &d); len(f.told) > maxRejectedPods+1 {
			t.Errorf("%d pods are remembered", len(f.told))
		}
		f.Describe(claiming(&metric.Sender{Key: 97, Pod: mallory, Known: true}, "y", "web-2"), &d)
		if len(events) > before+1 {
			t.Error("more pods are remembered than may be")
		}
	})
}
