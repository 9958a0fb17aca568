package adapter

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// The last request of each group by way of the API server is remembered with its status, and the
// controller's last question for each metric. Others' questions are not the controller's.
func TestUsesAreRemembered(t *testing.T) {
	plane := newControlPlane(t)
	plane.rights[controller] = []string{requestsRight, "get custom.metrics.k8s.io/pods/http_requests:rate:1m in shop", "get custom.metrics.k8s.io/pods/nothing in shop"}
	plane.rights["reader"] = plane.rights[controller]
	a, _ := startDelegating(t, plane)
	a.waitReady(t)
	proxy := plane.proxyCA.client(t, "front-proxy")
	as := func(user, path string) int {
		resp, _ := a.as(t, caller{certificate: &proxy, headers: []string{"X-Remote-User", user}}, path)
		return resp.StatusCode
	}
	group := func() GroupUse { return a.GroupUses()[0] }
	if got := group(); got.Group != "custom.metrics.k8s.io" || !got.Last.At.IsZero() {
		t.Fatalf("at the start: %+v", got)
	}
	nothing := customRoot + "v1beta2/namespaces/shop/pods/*/nothing"
	if as("reader", requestsPath) != http.StatusOK || as("reader", nothing) != http.StatusNotFound {
		t.Fatal("the reader can't read")
	}
	first := group()
	if first.Last.Code != http.StatusNotFound || first.Succeeded.IsZero() || !first.Succeeded.Before(first.Last.At) {
		t.Errorf("after 200 and 404: %+v", first)
	}
	if got := a.ControllerUse("shop", "pods", "http_requests"); !got.At.IsZero() {
		t.Errorf("the reader counts as the controller: %+v", got)
	}
	if code := as(controller, requestsPath); code != http.StatusOK {
		t.Fatal(code)
	}
	as(controller, nothing)
	for name, want := range map[string]int{"http_requests": 200, "nothing": 404, "never_asked": 0} {
		if got := a.ControllerUse("shop", "pods", name); got.Code != want || got.At.IsZero() != (want == 0) {
			t.Errorf("%s: %+v, want %d", name, got, want)
		}
	}
	before := group().Last.At
	if resp, _ := a.as(t, caller{}, requestsPath); resp.StatusCode == http.StatusOK {
		t.Fatal("anyone can read")
	}
	if !group().Last.At.Equal(before) {
		t.Error("a client that is not the API server counts as it")
	}
}

func TestUsesAreBounded(t *testing.T) {
	u := newUses()
	ctx := request.WithUser(context.Background(), &user.DefaultInfo{Name: "system:kube-controller-manager"})
	for i := range maxUses + 100 {
		u.note(ctx, useKey{"shop", "", fmt.Sprint("m", i)}, target{}.status(metric.NotFoundf("none")))
	}
	if len(u.metrics) != maxUses {
		t.Errorf("%d metrics are remembered, want %d", len(u.metrics), maxUses)
	}
}

func BenchmarkNoteUse(b *testing.B) {
	u := newUses()
	ctx := request.WithUser(context.Background(), &user.DefaultInfo{Name: controller})
	b.ReportAllocs()
	for b.Loop() {
		u.note(ctx, useKey{"shop", "pods", "http_requests"}, nil)
	}
}
