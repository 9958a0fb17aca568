package adapter

import (
	"context"

	"github.com/sluice-metrics/sluice/adapter/policy"
	"github.com/sluice-metrics/sluice/metric"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// checkPolicies checks an external metric. The selector is the reader's own; nil: none.
func checkPolicies(policies Policies, namespace, name string, selector labels.Selector, reader metric.Reader) error {
	if policies == nil {
		return nil
	}
	return policies.Check(policy.Request{Namespace: namespace, Expression: metric.ParseExpression(name),
		Selector: requirementsOf(selector), Reader: reader})
}

// readerOf is the user of a request.
func readerOf(ctx context.Context) metric.Reader {
	who, ok := request.UserFrom(ctx)
	if !ok {
		return metric.Reader{}
	}
	return metric.Reader{User: who.GetName(), Groups: who.GetGroups()}
}

// requirementsOf are a selector's requirements in the words of policies. matching evaluates them.
func requirementsOf(selector labels.Selector) []policy.Requirement {
	if selector == nil {
		return nil
	}
	all, selectable := selector.Requirements()
	if !selectable {
		return []policy.Requirement{{Operator: policy.In}} // selects nothing
	}
	list := make([]policy.Requirement, 0, len(all))
	for _, r := range all {
		list = append(list, policy.Requirement{Key: r.Key(), Operator: policyOperators[r.Operator()], Values: r.ValuesUnsorted()})
	}
	return list
}

// policyOperators translates operators. One that is missing here would not restrict a request, and
// so never allow more.
var policyOperators = map[selection.Operator]policy.Operator{
	selection.In: policy.In, selection.Equals: policy.In, selection.DoubleEquals: policy.In,
	selection.NotIn: policy.NotIn, selection.NotEquals: policy.NotIn,
	selection.Exists: policy.Exists, selection.DoesNotExist: policy.DoesNotExist,
	selection.GreaterThan: policy.GreaterThan, selection.LessThan: policy.LessThan,
}
