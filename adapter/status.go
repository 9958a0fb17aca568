package adapter

import (
	"errors"
	"net/http"

	"github.com/sluice-metrics/sluice/adapter/valuelist"
	"github.com/sluice-metrics/sluice/metric"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// target names the requested metric in the details of a Status.
type target struct {
	resource schema.GroupResource
	name     string
}

// status converts an error to the API's. It keeps the message, which apierrors.NewNotFound and the
// like would replace.
func (t target) status(err error) error {
	var refused *apierrors.StatusError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, metric.ErrNotFound), errors.Is(err, valuelist.ErrNotANumber):
		return t.failure(http.StatusNotFound, metav1.StatusReasonNotFound, err)
	case errors.Is(err, metric.ErrForbidden):
		return t.failure(http.StatusForbidden, metav1.StatusReasonForbidden, err)
	case errors.Is(err, metric.ErrInvalidQuery):
		return t.failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err)
	case errors.Is(err, metric.ErrNotReady):
		return t.failure(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err)
	case errors.Is(err, valuelist.ErrOverflow):
		return t.invalid(err)
	}
	return t.failure(http.StatusInternalServerError, metav1.StatusReasonInternalError, err)
}

// invalid is a 422. kubectl prints its kind, name and causes, and not its message.
func (t target) invalid(err error) error {
	failure := t.failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err)
	details := failure.ErrStatus.Details
	if details.Name == "" {
		details.Kind, details.Name = "metric", t.resource.Resource
	}
	details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "value",
		Message: err.Error()}}
	return failure
}

func (t target) failure(code int32, reason metav1.StatusReason, err error) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: err.Error(),
		Details: &metav1.StatusDetails{
			Group: metric.Truncate(t.resource.Group,
				metric.MaxQuoted), Kind: metric.Truncate(t.resource.Resource, metric.MaxQuoted),
			Name: metric.Truncate(t.name, metric.MaxQuoted),
		},
	}}
}
