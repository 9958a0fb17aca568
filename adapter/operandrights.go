package adapter

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-metrics/sluice/adapter/labelselector"
	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
)

// operandRights asks whether the client of a request may read another metric of the same objects.
// The API server has authorized the metric that the path names; if a rule computes it, its operands
// need the same right, under their own names. So a rule gives nobody a value that its reader could
// not read already.
type operandRights struct{ authorizer authorizer.Authorizer }

// of returns the metric.Query's MayRead of a request; nil: everybody may read all.
func (r operandRights) of(ctx context.Context) func(expression, selector string) error {
	if r.authorizer == nil {
		return nil
	}
	return func(expression, _ string) error { return r.check(ctx, escape(expression)) }
}

func (r operandRights) check(ctx context.Context, name string) error {
	asked, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return fmt.Errorf("right to %q: %w", name, err)
	}
	a := authorizer.AttributesRecord{
		User: asked.GetUser(), Verb: asked.GetVerb(), Namespace: asked.GetNamespace(), APIGroup: asked.GetAPIGroup(),
		APIVersion: asked.GetAPIVersion(), Resource: asked.GetResource(), Subresource: asked.GetSubresource(),
		Name: asked.GetName(), ResourceRequest: true, Path: asked.GetPath(),
	}
	// An object's metric is a subresource, a namespace's metric a name, an external metric a
	// resource. The library has rewritten the path of a namespace's metric since it was authorized.
	switch {
	case a.Resource == namespaces.Resource && a.Subresource != "":
		a.Resource, a.Namespace, a.Name, a.Subresource = "metrics", a.Name, name, ""
	case a.Subresource != "":
		a.Subresource = name
	default:
		a.Resource = name
	}
	decision, reason, err := r.authorizer.Authorize(ctx, a)
	if err == nil && decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		return fmt.Errorf("right to %q, of which the metric is computed: %w", name, err)
	}
	what := a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	if reason != "" {
		reason = ": " + reason
	}
	failed := target{resource: schema.GroupResource{Group: a.APIGroup, Resource: what}, name: a.Name}
	return failed.failure(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Errorf(
		"user %q cannot %s %s in API group %q in the namespace %q, and the metric is computed of it by a rule%s",
		userName(a), a.Verb, metric.Truncate(what, metric.MaxQuoted), a.APIGroup, a.Namespace, reason))
}

func userName(a authorizer.AttributesRecord) string {
	if a.User == nil {
		return ""
	}
	return a.User.GetName()
}

// rightPatience bounds the time in which a right is asked for anew.
const rightPatience = 2 * time.Second

// lost reports whether the client of a request that goes on has no more right to it: its namespace may be another one
// by now. Without an answer it keeps the right.
func (r operandRights) lost(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, rightPatience)
	defer cancel()
	asked, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return true
	}
	decision, _, err := r.authorizer.Authorize(ctx, asked)
	return err == nil && decision != authorizer.DecisionAllow
}

// operandPolicies asks the policies about each operand of an external metric that a rule computes.
// The selector is the reader's own, beside which the rule may have another one. Nil: there are no
// policies.
func operandPolicies(policies Policies, namespace string, selector labels.Selector,
	reader metric.Reader) func(expression, more string) error {
	if policies == nil {
		return nil
	}
	return func(expression, more string) error {
		s, err := labelselector.Parse("selector", more)
		if err != nil {
			return err
		}
		return policies.Check(policy.Request{Namespace: namespace, Expression: metric.ParseExpression(expression),
			Selector: append(requirementsOf(selector), requirementsOf(s)...), Reader: reader})
	}
}

// bothMayRead asks first, then second; each may be nil.
func bothMayRead(first, second func(expression, selector string) error) func(expression, selector string) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(expression, selector string) error {
		if err := first(expression, selector); err != nil {
			return err
		}
		return second(expression, selector)
	}
}

// Requirements are the requirements of a selector of label sets, in the words of policies.
func Requirements(text string) ([]policy.Requirement, error) {
	selector, err := labelselector.Parse("selector", text)
	if err != nil {
		return nil, err
	}
	return requirementsOf(selector), nil
}
