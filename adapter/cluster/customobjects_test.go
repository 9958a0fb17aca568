package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	ktesting "k8s.io/client-go/testing"
)

const policies = "externalmetricpolicies"

// otherResources are Sluice's other custom resources.
var otherResources = []string{"clusterexternalmetricpolicies", "metricrules", "clustermetricrules"}

func aPolicy(namespace, name, metric string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": customVersion.String(), "kind": "ExternalMetricPolicy",
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": name + "-uid", "generation": int64(1)},
		"spec":     map[string]any{"rules": []any{map[string]any{"metric": metric, "deny": true}}},
	}}
}

// customWorld is a View with one custom resource, and an API server that has it or not.
type customWorld struct {
	view    *View
	client  *dynamicfake.FakeDynamicClient
	objects *CustomObjects

	mu        sync.Mutex
	refusal   error    // of all requests
	installed []string // in discovery
	silence   error    // of discovery
	asked     int      // requests of discovery
	watches   []watch.Interface
	all       []*CustomObject
}

func newCustomWorld(objects ...runtime.Object) *customWorld {
	kinds := map[schema.GroupVersionResource]string{customVersion.WithResource(policies): "ExternalMetricPolicyList"}
	for _, resource := range otherResources {
		kinds[customVersion.WithResource(resource)] = "List"
	}
	w := &customWorld{client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)}
	w.client.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.refusal != nil, nil, w.refusal
	})
	w.client.PrependWatchReactor("*", func(a ktesting.Action) (bool, watch.Interface, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if one, ok := a.(ktesting.WatchActionImpl); ok && one.ListOptions.SendInitialEvents != nil && w.refusal == nil {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // the fake cannot stream a list
		}
		if w.refusal != nil {
			return true, nil, w.refusal
		}
		events, err := w.client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		w.watches = append(w.watches, events)
		return true, events, err
	})
	w.view = &View{observer: &Observer{}, resources: newResources(), dynamic: w.client, logger: quiet, events: &events{}}
	w.view.installedKinds = &installedKinds{discover: func(context.Context) ([]string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked++
		return w.installed, w.silence
	}}
	w.objects = w.view.WatchCustom(policies, func(all []*CustomObject) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = all
	})
	return w
}

func (w *customWorld) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusal = err
}

// endWatches makes the next requests needed.
func (w *customWorld) endWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.watches {
		i.Stop()
	}
}

func (w *customWorld) names() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, customObject := range w.all {
		names = append(names, customObject.Namespace+"/"+customObject.Name)
	}
	return names
}

// object returns an object of the last change.
func (w *customWorld) object(i int) *CustomObject {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[i]
}

func (w *customWorld) want(t *testing.T, names ...string) {
	t.Helper()
	synctest.Wait()
	if got := w.names(); fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("objects %v, want %v", got, names)
	}
}

func (w *customWorld) run(t *testing.T) { w.runAlso(t, w.objects) }

func (w *customWorld) runAlso(t *testing.T, objects *CustomObjects) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { objects.run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
}

var group = schema.GroupResource{Group: customVersion.Group, Resource: policies}

// A resource that is not installed has no objects, delays nothing and is looked for again: the same without
// the right to read it, which the API server asks for first.
func TestCustomResourceIsNotInstalled(t *testing.T) {
	for name, refusal := range map[string]error{
		"not installed": apierrors.NewNotFound(group, ""),
		"forbidden":     apierrors.NewForbidden(group, "", errors.New("no right")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCustomWorld(aPolicy("shop", "a", "x"))
				w.installed = []string{"metricrules"}
				if w.objects.Known() {
					t.Error("not pending before the first answer")
				}
				w.refuse(refusal)
				w.run(t)
				w.want(t)
				if !w.objects.Known() || w.objects.Unreadable() != "" {
					t.Errorf("known %v, unreadable %q, though there are none", w.objects.Known(), w.objects.Unreadable())
				}
				if n := len(outageTexts([]*requestHealth{w.objects.watch.health})); n > 0 {
					t.Error("that is an outage")
				}
				w.refuse(nil)
				time.Sleep(2 * missingKindRetry)
				w.want(t, "shop/a")
			})
		})
	}
}

// A resource that is installed later is watched some seconds later. Until then, discovery is asked
// once for all missing resources, and each of them is asked for once a minute.
func TestCustomResourceIsInstalledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		others := []*CustomObjects{}
		for _, resource := range otherResources {
			others = append(others, w.view.WatchCustom(resource, func([]*CustomObject) {}))
		}
		w.refuse(apierrors.NewNotFound(group, ""))
		for _, other := range others {
			w.runAlso(t, other)
		}
		w.run(t)
		const absent = 10*time.Minute + 10*time.Second
		time.Sleep(absent)
		w.mu.Lock()
		asked := w.asked
		w.mu.Unlock()
		if limit := int(absent / installedKindsInterval); asked > limit || asked < limit-10 {
			t.Errorf("discovery was asked %d times, want %d", asked, limit)
		}
		if n, limit := len(w.client.Actions()), 4*2*11; n > limit { // a streamed list, and a list
			t.Errorf("%d requests of missing resources, want at most %d", n, limit)
		}
		w.mu.Lock()
		w.installed, w.refusal = []string{policies}, nil
		w.mu.Unlock()
		time.Sleep(installedKindsInterval + time.Second)
		w.want(t, "shop/a")
	})
}

// The objects of an installed resource are unknown without the right to read them: the text names it,
// the log says it once, and it is a failure of the watch. With the right they are known soon.
func TestCustomResourceIsUnreadable(t *testing.T) {
	for name, silence := range map[string]error{"": nil, "nor discovery": apierrors.NewForbidden(schema.GroupResource{}, "", nil)} {
		t.Run("may not read it "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCustomWorld(aPolicy("shop", "a", "x"))
				said := &logtest.Buffer{}
				w.objects.watch.health.logger = slog.New(slog.NewTextHandler(said, nil))
				w.installed, w.silence = []string{policies, policies + "/status"}, silence
				w.refuse(apierrors.NewForbidden(group, "", errors.New(`User "sluice" cannot list resource`)))
				w.run(t)
				time.Sleep(20 * time.Minute)
				w.want(t)
				if why := w.objects.Unreadable(); !w.objects.Known() || !strings.Contains(why, `User "sluice" cannot list`) ||
					!strings.Contains(why, `resources ["externalmetricpolicies"], verbs [list, watch]`) {
					t.Errorf("known %v, unreadable: %q", w.objects.Known(), why)
				}
				if w.objects.watch.health.failingFor() < 10*time.Minute || len(outageTexts([]*requestHealth{w.objects.watch.health})) != 1 {
					t.Error("no failure of the watch")
				}
				if n := said.Count("watching a resource is forbidden"); n != 1 {
					t.Errorf("logged %d times, want once", n)
				}
				w.refuse(nil)
				time.Sleep(2 * missingKindRetry)
				w.want(t, "shop/a")
				if why := w.objects.Unreadable(); why != "" {
					t.Errorf("still unreadable: %s", why)
				}
			})
		})
	}
}

// A resource that is installed again is as new: what was read of the former one doesn't count.
func TestCustomResourceComesBackUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		w.run(t)
		w.want(t, "shop/a")
		w.refuse(apierrors.NewNotFound(group, ""))
		w.endWatches()
		time.Sleep(2 * missingKindRetry)
		w.want(t)
		w.refuse(apierrors.NewForbidden(group, "", errors.New("no right")))
		w.mu.Lock()
		w.installed = []string{policies}
		w.mu.Unlock()
		time.Sleep(2 * missingKindRetry)
		synctest.Wait()
		if w.objects.Unreadable() == "" {
			t.Error("the objects of the new resource count as known")
		}
	})
}

// A right that is lost later, or an API server that doesn't answer, leaves the objects in use.
func TestCustomObjectsStayInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		w.run(t)
		w.want(t, "shop/a")
		w.refuse(apierrors.NewForbidden(group, "", errors.New("no right")))
		w.endWatches()
		time.Sleep(5 * time.Minute)
		w.want(t, "shop/a")
		if why := w.objects.Unreadable(); why != "" || w.objects.watch.health.failingFor() == 0 {
			t.Errorf("unreadable %q; a failure of the watch: %v", why, w.objects.watch.health.lastError())
		}
	})
}

func TestCustomObjectsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		w.run(t)
		client := w.client.Resource(customVersion.WithResource(policies))
		if _, err := client.Namespace("bank").Create(t.Context(), aPolicy("bank", "b", "y"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.want(t, "bank/b", "shop/a")
		if spec := string(w.object(0).Spec); spec != `{"rules":[{"deny":true,"metric":"y"}]}` {
			t.Errorf("spec %s", spec)
		}
		first := w.object(1)
		must(t, client.Namespace("bank").Delete(t.Context(), "b", metav1.DeleteOptions{}))
		w.want(t, "shop/a")
		if w.object(0) != first {
			t.Error("an unchanged object is another pointer")
		}
	})
}

func (w *customWorld) patches() (bodies []string) {
	for _, action := range w.client.Actions() {
		if p, ok := action.(ktesting.PatchAction); ok && p.GetSubresource() == "status" {
			bodies = append(bodies, string(p.GetPatch()))
		}
	}
	return bodies
}

// A status is written once, and again only when it changes; another replica's is left alone.
func TestStatusIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		w.run(t)
		status := CustomStatus{Conditions: []Condition{{Type: "Accepted", True: true, Reason: "Compiled", Message: "1 rule"}}}
		for range 3 {
			w.objects.Report(w.object(0), status)
			time.Sleep(2 * time.Minute)
		}
		if got := w.patches(); len(got) != 1 {
			t.Fatalf("%d patches: %v", len(got), got)
		}
		text, err := json.Marshal(w.status(t))
		var is statusDocument
		if err == nil {
			err = json.Unmarshal(text, &is)
		}
		if err != nil || len(is.Conditions) != 1 || is.Conditions[0].Reason != "Compiled" || is.ObservedGeneration != 1 {
			t.Errorf("%v %+v", err, is)
		}
		status = CustomStatus{Conditions: []Condition{{Type: "Accepted", Reason: "Faulty"}}}
		w.objects.Report(w.object(0), status)
		time.Sleep(time.Minute)
		if got := w.patches(); len(got) != 2 {
			t.Errorf("after a change: %v", got)
		}
	})
}

// A field of a status is removed again.
func TestAFieldOfAStatusIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		w.run(t)
		for _, value := range []string{"", "7", "", ""} {
			w.objects.Report(w.object(0), CustomStatus{Fields: map[string]string{"lastValue": value}})
			time.Sleep(2 * time.Minute)
			got := "none"
			if status, ok := w.status(t)["lastValue"]; ok {
				got = fmt.Sprint(status)
			}
			if want := cmp.Or(value, "none"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if got := w.patches(); len(got) != 3 { // the first one has the generation alone
			t.Errorf("%d patches: %v", len(got), got)
		}
	})
}

// A status is of one object, and not for the one that has its name after it, perhaps in another namespace: it
// may have a value.
func TestNoStatusForTheNextObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		w.run(t)
		former := *w.object(0)
		former.UID = "of-the-former"
		status := CustomStatus{Fields: map[string]string{"lastValue": "7"}}
		w.objects.statuses.write(t.Context(), wantedStatus{of: &former, status: status})
		if got := w.status(t); len(got) != 0 {
			t.Errorf("the next object has the status %v of the former one", got)
		}
		w.objects.statuses.write(t.Context(), wantedStatus{of: w.object(0), status: status})
		if got := w.status(t)["lastValue"]; got != "7" {
			t.Errorf("its own status says %v, want 7", got)
		}
	})
}

// status is that of the object shop/a.
func (w *customWorld) status(t *testing.T) map[string]any {
	t.Helper()
	got, err := w.client.Resource(customVersion.WithResource(policies)).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	status, _, _ := unstructured.NestedMap(got.Object, "status")
	return status
}

// A message that is too long ends before a letter that would be cut: the API server would store another
// one, and the status would be written again and again.
func TestLongMessagesAreCutBetweenLetters(t *testing.T) {
	for n := range 4 {
		long := strings.Repeat("a", n) + strings.Repeat("€", maxStatusText)
		if got := text(long); !utf8.ValidString(got) || !strings.HasPrefix(long, got) || len(got) > maxStatusText || len(got) < maxStatusText-3 {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
}

// A replica without the Lease writes no status.
func TestStatusIsTheHoldersToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCustomWorld(aPolicy("shop", "a", "x"))
		l := &lease{}
		w.objects.statuses.lease = l
		w.run(t)
		w.objects.Report(w.object(0), CustomStatus{Conditions: []Condition{{Type: "Accepted", True: true, Reason: "Compiled"}}})
		time.Sleep(time.Minute)
		if got := w.patches(); len(got) != 0 {
			t.Errorf("without the Lease: %v", got)
		}
		l.holds.Store(true)
		time.Sleep(time.Minute)
		if got := w.patches(); len(got) != 1 {
			t.Errorf("with the Lease: %v", got)
		}
	})
}

// Changes that come together are told of together, however long it takes who is told, and statuses are no changes: Sluice writes
// one for each object.
func TestManyCustomChangesAreToldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, took = 1000, 50 * time.Millisecond
		var calls, last atomic.Int64
		c := &CustomObjects{named: map[objectName]*CustomObject{}, statuses: newCustomStatuses(nil, nil, nil),
			news: make(chan struct{}, 1), changed: func(all []*CustomObject) {
				time.Sleep(took)
				calls.Add(1)
				last.Store(int64(len(all)))
			}}
		ctx, end := context.WithCancel(t.Context())
		var telling sync.WaitGroup
		telling.Go(func() { c.tellNews(ctx) })
		began := time.Now()
		for i := range objects {
			c.put(&CustomObject{Namespace: "flood", Name: fmt.Sprint(i), UID: fmt.Sprint(i), Generation: 1})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if most := int64(time.Since(began)/(4*took)) + 1; calls.Load() > most || last.Load() != objects {
			t.Errorf("told %d times, at last of %d objects; want %d times at most", calls.Load(), last.Load(), most)
		}
		calls.Store(0)
		object := c.list()[0]
		c.Report(object, CustomStatus{Conditions: []Condition{{Type: "Accepted", Reason: "Accepted", True: true}}})
		has := *object
		has.Status = []byte(`{"observedGeneration":1,"conditions":[{"type":"Accepted","status":"True","reason":"Accepted","observedGeneration":1}]}`)
		c.put(&has)
		time.Sleep(time.Second)
		due := c.statuses.due(time.Now())
		c.Report(object, CustomStatus{Conditions: []Condition{{Type: "Accepted", Reason: "Accepted", True: true}}}) // of the object as it was told of
		if due = append(due, c.statuses.due(time.Now())...); calls.Load() > 0 || len(due) > 0 {
			t.Errorf("told %d times of a status, which is written %d times more", calls.Load(), len(due))
		}
		end()
		telling.Wait()
	})
}
