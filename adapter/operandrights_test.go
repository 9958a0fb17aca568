package adapter

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// computing is a Source with a rule: "ratio" is computed of "secret:last" and "busy/all".
type computing struct{ *memory }

func (c computing) Objects(q metric.Query) ([]metric.Point, error) {
	if err := c.may(&q); err != nil {
		return nil, err
	}
	return c.memory.Objects(q)
}

func (c computing) External(q metric.Query) ([]metric.Point, error) {
	if err := c.may(&q); err != nil {
		return nil, err
	}
	return c.memory.External(q)
}

func (computing) may(q *metric.Query) error {
	if q.Expression.Name != "ratio" {
		return nil
	}
	for _, operand := range []string{"busy/all", "secret:last"} {
		if err := q.MayRead(operand, ""); err != nil {
			return err
		}
	}
	q.Expression.Name = "http_requests"
	return nil
}

// denier denies what names a secret, and records all requests.
type denier struct {
	recorder
	all []string
}

func (d *denier) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	_, _, _ = d.recorder.Authorize(ctx, a)
	d.all = append(d.all, d.asked())
	if strings.Contains(d.asked(), "secret") {
		return authorizer.DecisionDeny, "no rule allows it", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// A reader needs the right to each operand of a rule, of the same objects.
func TestRightsToOperands(t *testing.T) {
	for path, want := range map[string][]string{
		customRoot + "v1beta2/namespaces/shop/pods/web-1/ratio": {"get,custom.metrics.k8s.io,pods,ratio,web-1,shop", `get,custom.metrics.k8s.io,pods,busy\|all,web-1,shop`, "get,custom.metrics.k8s.io,pods,secret:last,web-1,shop"},
		customRoot + "v1beta2/namespaces/shop/metrics/ratio":    {"get,custom.metrics.k8s.io,metrics,,secret:last,shop"},
		externalRoot + "namespaces/shop/ratio":                  {"list,external.metrics.k8s.io,ratio,,,shop", `list,external.metrics.k8s.io,busy\|all,,,shop`, "list,external.metrics.k8s.io,secret:last,,,shop"},
	} {
		denier := new(denier)
		who := anonymousAccess()
		who.authorizer = denier
		a := running(t, prepared(t, Parts{Source: computing{shop()}}, who))
		a.waitReady(t)
		resp, body := a.get(t, path, "")
		if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "secret:last") || !strings.Contains(string(body), "computed of it by a rule") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		for _, one := range want {
			if !slices.Contains(denier.all, one) {
				t.Errorf("%s: %q was not asked, but %q", path, one, denier.all)
			}
		}
	}
}
