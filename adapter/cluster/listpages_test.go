package cluster

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// decodedPages are the pages of pods that client-go decoded.
type decodedPages struct {
	logged bool // client-go logs what it can't read

	mu      sync.Mutex
	largest int // bytes of annotations
	alive   int // the most pods of pages before that were there when a page was asked for
	// pods are a part of each, which a copy of the pod has, too.
	pods []weak.Pointer[corev1.PodSecurityContext]
}

// observe has the pages of a view's pods noted.
func (d *decodedPages) observe(v *View) {
	list := v.required[0].list
	v.required[0].list = func(ctx context.Context, options metav1.ListOptions) (apiruntime.Object, error) {
		d.countAlive()
		d.logged = d.logged || klog.FromContext(ctx).GetSink() != nil
		page, err := list(ctx, options)
		if err == nil {
			d.add(page.(*corev1.PodList))
		}
		return page, err
	}
}

func (d *decodedPages) countAlive() {
	runtime.GC()
	d.mu.Lock()
	defer d.mu.Unlock()
	alive := 0
	for _, p := range d.pods {
		if p.Value() != nil {
			alive++
		}
	}
	d.alive = max(d.alive, alive)
}

func (d *decodedPages) add(page *corev1.PodList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := 0
	for i := range page.Items {
		size += len(page.Items[i].Annotations["text"])
		d.pods = append(d.pods, weak.Make(page.Items[i].Spec.SecurityContext))
	}
	d.largest = max(d.largest, size)
}

// fillWithLargePods puts ordinary pods, and pods with as many annotations as an author likes,
// between them.
func fillWithLargePods(s *apiServer, ordinary, large, size int) {
	put := func(namespace string, n, size int) {
		for i := range n {
			p := annotated(aPod(namespace, fmt.Sprintf("p%04d", i), fmt.Sprint(namespace, i)), "text", strings.Repeat("x", size))
			p.Spec.SecurityContext = &corev1.PodSecurityContext{}
			s.put(podsPath, p)
		}
	}
	put("a", ordinary, 10)
	put("flood", large, size)
	put("z", ordinary, 10)
}

// Where the API server cannot stream a list, no more than a page of it is held as the API server
// has it, and no page has many times what an ordinary one has.
func TestAListIsReadByPages(t *testing.T) {
	const ordinary, large, size = 2 * maxPageObjects, maxPageObjects / 2, 200_000
	s := newAPIServer(t)
	s.streams = false
	fillWithLargePods(s, ordinary, large, size)
	var pages decodedPages
	v := s.viewThat(t, func(v *View) {
		v.retryAfter(wait.Backoff{Duration: 20 * time.Millisecond, Steps: 10})
		pages.observe(v)
	})
	v.waitSynced(t)
	if n := v.pods.count(); n != 2*ordinary+large {
		t.Errorf("%d pods are known, want %d", n, 2*ordinary+large)
	}
	if pages.largest > maxPageBytes || pages.largest == 0 {
		t.Errorf("a page of %d bytes was decoded, want at most %d", pages.largest, maxPageBytes)
	}
	if pages.alive > maxPageObjects {
		t.Errorf("%d pods of pages before were held", pages.alive)
	}
	limits := s.limitsOf(podsPath)
	if slices.Max(limits) > maxPageObjects || limits[len(limits)-1] < maxPageObjects/2 {
		t.Errorf("pages were asked for with the limits %v, want %d, fewer for large pods, and then that again", limits, maxPageObjects)
	}
	if n := v.required[0].health.failureCount(); n != 0 || pages.logged {
		t.Errorf("pages that are too large are %d failures, and client-go logs them: %v", n, pages.logged)
	}
}

// Objects of which metadata is watched are read by pages as well. One that is larger than a page
// may be is a page.
func TestAListOfMetadataIsReadByPages(t *testing.T) {
	s := newAPIServer(t)
	s.streams = false
	s.serve(deploymentsPath, "Deployment")
	for i := range 4 {
		d := aDeployment("shop", fmt.Sprint("web-", i), fmt.Sprint("d", i))
		d.Annotations = map[string]string{"text": strings.Repeat("x", maxPageBytes/2)}
		if i == 2 {
			d.Annotations["more"] = d.Annotations["text"]
		}
		s.put(deploymentsPath, d)
	}
	v := s.view(t, "deployments.apps")
	v.waitSynced(t)
	for i := range 4 {
		if _, exists, _ := v.Object("deployments.apps", "shop", fmt.Sprint("web-", i)); !exists {
			t.Errorf("web-%d is not known", i)
		}
	}
	if limits := s.limitsOf(deploymentsPath); slices.Min(limits) != 1 {
		t.Errorf("pages were asked for with the limits %v, want one at last", limits)
	}
}

// A list whose version has ended between its pages, as etcd's does after minutes, begins anew. The API server is not taken
// for one that fails.
func TestAListThatExpiresBeginsAnew(t *testing.T) {
	const n = 3 * maxPageObjects
	s := newAPIServer(t)
	s.streams = false
	fillWithLargePods(s, n, 0, 0)
	pages := 0
	v := s.viewThat(t, func(v *View) {
		v.retryAfter(wait.Backoff{Duration: 20 * time.Millisecond, Steps: 10})
		list := v.required[0].list
		v.required[0].list = func(ctx context.Context, options metav1.ListOptions) (apiruntime.Object, error) {
			if pages++; pages == 3 {
				return nil, apierrors.NewResourceExpired("the continue token is too old")
			}
			return list(ctx, options)
		}
	})
	v.waitSynced(t)
	if got := v.pods.count(); got != 2*n || pages != 2+1+2*3 {
		t.Errorf("%d pods are known after %d pages, want %d after 9", got, pages, 2*n)
	}
	if n := v.required[0].health.failureCount(); n != 0 {
		t.Errorf("%d failures", n)
	}
}
