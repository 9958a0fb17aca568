package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// installedKindsInterval is the interval at which discovery is asked for missing custom resources:
// a policy should count soon after its kind was installed.
const installedKindsInterval = 5 * time.Second

// installedKinds asks the API server which custom resources of Sluice are installed. Every account
// may ask, and the answer is small.
type installedKinds struct {
	discover func(context.Context) ([]string, error)

	mu     sync.Mutex // held during a request, so that resources that are missing together share it
	asked  time.Time
	answer []string // nil after a failure
}

func newInstalledKinds(client rest.Interface) *installedKinds {
	return &installedKinds{discover: func(ctx context.Context) ([]string, error) {
		found := metav1.APIResourceList{}
		err := client.Get().AbsPath("/apis/" + customVersion.String()).Do(ctx).Into(&found)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		names := make([]string, len(found.APIResources))
		for i := range found.APIResources {
			names[i] = found.APIResources[i].Name
		}
		return names, err
	}}
}

// await returns when a resource is installed, or after a while: discovery may be forbidden.
func (k *installedKinds) await(ctx context.Context, resource string, most time.Duration) {
	for end := time.Now().Add(most); ctx.Err() == nil && time.Now().Before(end); {
		sleep(ctx, installedKindsInterval, nil)
		if k.had(ctx, resource) {
			return
		}
	}
}

// had reports whether a resource was installed at the last request of discovery, which is recent.
func (k *installedKinds) had(ctx context.Context, resource string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.asked) >= installedKindsInterval/2 {
		ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
		defer cancel()
		answer, err := k.discover(ctx)
		if err != nil {
			answer = nil
		}
		k.asked, k.answer = time.Now(), answer
	}
	return slices.Contains(k.answer, resource)
}
