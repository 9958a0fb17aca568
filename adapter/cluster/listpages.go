package cluster

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// Bounds of a page of a list. Authors of a namespace fill their objects with up to 1.5 MiB of
// annotations and labels, which take ten times that once they are decoded.
const (
	maxPageObjects = 100
	// maxPageBytes bounds the body of a page of several objects. An ordinary page has less than a
	// quarter of it.
	maxPageBytes = 4 << 20
)

// ListWithContext implements cache.ListerWatcherWithContext. An API server that cannot stream a
// list (Kubernetes before 1.32, and 1.33) is asked for pages. Each is converted before the next one
// is asked for, so no more than a page is held as the API server has it. The API server ignores a
// limit beside the Reflector's resource version, so the list is of the newest version, which older
// API servers read from etcd.
func (w *resourceWatch) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	ctx = klog.NewContext(ctx, klog.Logger{}) // client-go logs a page that is too large as an error
	list := &metainternalversion.List{}
	options := metav1.ListOptions{Limit: maxPageObjects}
	for {
		page, err := w.list(ctx, options)
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			options.Limit /= 2
			continue
		}
		if w.record(ctx, err); err != nil {
			return nil, err
		}
		if list.ListMeta, err = w.convertPage(page, list); err != nil || list.Continue == "" {
			return list, err
		}
		options.Continue, options.Limit = list.Continue, min(2*options.Limit, maxPageObjects)
	}
}

// convertPage appends the short forms of a page's objects to a list. It skips objects that cannot
// be converted.
func (w *resourceWatch) convertPage(page runtime.Object, list *metainternalversion.List) (metav1.ListMeta, error) {
	of, err := meta.ListAccessor(page)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	convert := w.store.Transformer()
	err = meta.EachListItemWithAlloc(page, func(object runtime.Object) error {
		if short, err := convert(object); err == nil {
			list.Items = append(list.Items, converted{short})
		}
		return nil
	})
	return metav1.ListMeta{ResourceVersion: of.GetResourceVersion(), Continue: of.GetContinue()}, err
}

// converted is a short form as an item of a list.
type converted struct{ short any }

// GetObjectKind implements runtime.Object.
func (converted) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. Short forms are not changed.
func (c converted) DeepCopyObject() runtime.Object { return c }

// boundPages bounds the bodies of pages of several objects. Of a page of one object, the API server
// bounds the object.
type boundPages struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. Reading beyond the bound fails with an
// http.MaxBytesError.
func (b boundPages) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if limit := r.URL.Query().Get("limit"); err == nil && limit != "" && limit != "1" {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxPageBytes)
	}
	return answer, err
}
