package adapter

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-metrics/sluice/adapter/inspect"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const controller = inspect.ControllerUser

// asking asks a vainQueries as the autoscaler's controller.
type asking struct {
	*vainQueries
	ctx context.Context
	log strings.Builder
}

func newAsking(t *testing.T) *asking {
	a := &asking{ctx: request.WithUser(t.Context(), &user.DefaultInfo{Name: controller})}
	a.vainQueries = newVainQueries(slog.New(slog.NewTextHandler(&a.log, nil)))
	return a
}

// every asks for a metric of pods in vain, some times.
func (a *asking) every(interval time.Duration, times int, name string) {
	for range times {
		a.note(a.ctx, vainKey{"shop", "pods", name}, metric.NotFoundf("no series of %q: none was ever received", name))
		time.Sleep(interval)
	}
}

func (a *asking) warnings() int { return strings.Count(a.log.String(), "level=WARN") }

func TestAMetricThatIsAskedForInVainIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t)
		a.every(15*time.Second, 2, "hits")
		a.note(a.ctx, vainKey{"shop", "pods", "there"}, nil)
		a.note(a.ctx, vainKey{"shop", "pods", "there"}, metric.InvalidQueryf("a window that is not kept"))
		if a.log.Len() != 0 {
			t.Fatalf("logged within %v: %s", vainAfter, a.log.String())
		}
		a.every(15*time.Second, 200, "hits")
		for _, part := range []string{"namespace=shop", "metric=hits", "of=pods", "by=" + controller, "times=3", "none was ever received"} {
			if !strings.Contains(a.log.String(), part) {
				t.Errorf("the log does not say %s: %s", part, a.log.String())
			}
		}
		if n := a.warnings(); n != 1 {
			t.Errorf("%d warnings in 50 minutes, want 1", n)
		}
		a.every(15*time.Second, 240, "hits")
		if n := a.warnings(); n != 2 {
			t.Errorf("%d warnings in 110 minutes, want 2", n)
		}
	})
}

// Somebody who asks now and then reads the answers.
func TestRareQueriesAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t)
		a.every(5*time.Minute, 20, "hits")
		if a.log.Len() != 0 {
			t.Error(a.log.String())
		}
	})
}

// Invented names take a bounded memory, and make room once nobody asks for them.
func TestInventedNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t)
		for i := range 3 * maxVain {
			a.every(0, 1, fmt.Sprint("name", i))
		}
		a.every(0, 1, strings.Repeat("x", 100_000))
		if len(a.asked) != maxVain {
			t.Errorf("%d names are remembered, want %d", len(a.asked), maxVain)
		}
		time.Sleep(vainForgotten + time.Second)
		a.every(15*time.Second, 3, "hits")
		if a.warnings() != 1 || len(a.asked) != 1 {
			t.Errorf("%d warnings, %d names", a.warnings(), len(a.asked))
		}
	})
}

// Both API groups note what they do not find.
func TestBothAPIsNoteWhatTheyDoNotFind(t *testing.T) {
	a := start(t, shop())
	for _, path := range []string{customRoot + "v1beta2/namespaces/shop/pods/*/hits", externalRoot + "namespaces/shop/queue"} {
		if resp, body := a.get(t, path, "application/json"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, body)
		}
	}
	a.vain.mu.Lock()
	defer a.vain.mu.Unlock()
	for _, key := range []vainKey{{"shop", "pods", "hits"}, {"shop", "", "queue"}} {
		if q := a.vain.asked[key]; q == nil || q.times != 1 {
			t.Errorf("%+v: %+v", key, q)
		}
	}
}
