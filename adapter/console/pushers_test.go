package console

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
)

// Senders have what they push and what was refused; groups what their last push did, and the command that deletes them.
func TestPagesOfPushers(t *testing.T) {
	now := time.Now()
	f := &fakeSource{
		senders: []inspect.Sender{{Namespace: "shop", Name: "web-1", Sort: "pod", Series: 12345, Rejected: 7, LastHeard: now, Metrics: []string{"jobs", "busy"}}},
		groups: []inspect.PushedGroup{
			{Namespace: "shop", Job: "batch", Labels: map[string]string{"instance": "a/b", "namespace": "shop"}, Series: 2, LastPush: now},
			{Job: "dots", Labels: map[string]string{"a": ".", "b": ".."}, LastPush: now},
			{Job: "late", LastPush: now, LastFailure: now.Add(time.Second)},
		},
	}
	s := running(t, f)
	for path, wants := range map[string][]string{
		"/senders":             {"web-1", "12\u2009345", `href="/refused?namespace=shop">7</a>`, `href="/metric?name=jobs&amp;namespace=shop"`},
		"/senders?namespace=x": {"Nobody pushes"},
		"/groups":              {"The last push to 1 of these groups was refused", ">Command<"},
		"/groups/delete?namespace=shop&group=/metrics/job/batch/instance@base64/YS9i/namespace/shop": {"curl -X DELETE http://127.0.0.1:9091/metrics/job/batch/instance@base64/YS9i/namespace/shop<", "may delete it, too:"},
		"/groups/delete?group=/metrics/job/late":                                                     {"http://127.0.0.1:9091/metrics/job/late<"},
		"/groups/delete?group=/metrics/job/dots/a@base64/Lg/b@base64/Li4=":                           {"there is no group"},
		"/groups/delete?group=/metrics/job/dots/a@base64/Lg/b@base64/Li4":                            {"http://127.0.0.1:9091/metrics/job/dots/a@base64/Lg/b@base64/Li4<"},
		"/groups?namespace=x": {"No groups"},
	} {
		if _, body := get(t, s, path); !containsAll(body, wants) {
			t.Errorf("%s lacks one of %q:\n%s", path, wants, body)
		}
	}
}

// Other replicas have a page where there are any: those that are not heard in words.
func TestPageOfReplicas(t *testing.T) {
	s := running(t, shop(), func(p *Parts) {
		p.Health = func() Health {
			return Health{Replicas: 3, Others: []Replica{
				{Name: "sluice-1", State: "sends", Lag: 480 * time.Millisecond, Clock: -3 * time.Millisecond, Series: 12345, Bytes: 3 << 20, Received: 40 << 20},
				{Name: "sluice-2", State: "stands still", Fault: true, Lag: 37 * time.Second},
			}}
		}
	})
	if _, body := get(t, s, "/replicas"); !containsAll(body, []string{"1 of 3 replicas is not heard", "480ms", "-3ms", "12\u2009345", "3.0 MiB", "40 MiB", `<span class="tag bad">stands still</span>`, `href="/replicas" aria-current="page"`}) {
		t.Errorf("%s", body)
	}
	s = running(t, shop())
	if _, body := get(t, s, "/metrics"); strings.Contains(body, "/replicas") {
		t.Errorf("a link to a page of nothing:\n%s", body)
	}
	if _, body := get(t, s, "/replicas"); !strings.Contains(body, "<code>replica-peers</code>") {
		t.Errorf("%s", body)
	}
}
