package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-metrics/sluice/internal/ratelog/logtest"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// retryAfter sets all backoffs, for tests.
func (v *View) retryAfter(b wait.Backoff) {
	for _, r := range v.required {
		r.backoff = b
	}
	for _, watchedKind := range v.watchedKinds() {
		watchedKind.backoff = b
	}
	v.probe.interval = b.Duration
	v.discoverer.minInterval, v.discoverer.retryAfter, v.events.pause = b.Duration, b.Duration, b.Duration
}

// apiServer implements the part of the Kubernetes API that the view needs, over HTTP: lists,
// watches with and without a streamed list, discovery, Events. Everything else is 404.
type apiServer struct {
	t    *testing.T
	http *http.Server
	at   string

	mu        sync.Mutex
	version   int
	served    map[string]*served // by path: "/api/v1/pods"
	changed   chan struct{}      // closed when anything changed
	cut       chan struct{}      // closed to end all watches
	forbidden map[string]bool
	frozen    chan struct{} // not nil: answers wait until it is closed
	// streams: lists can be streamed; an older API server cannot.
	streams bool
	// lists counts lists, streamed or not, by path; limits are those of the requests for their
	// pages.
	lists  map[string]int
	limits map[string][]int
	events []*corev1.Event
	leases map[string]*coordinationv1.Lease // by path
}

// served is one resource.
type served struct {
	kind, apiVersion string // of its objects in answers
	resource         metav1.APIResource
	objects          map[types.NamespacedName]metav1.Object
	log              []logged
	oldest           int // the oldest version that can be watched from
}

type logged struct {
	version int
	event   string
	object  []byte
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{
		t: t, version: 10, served: map[string]*served{}, changed: make(chan struct{}), cut: make(chan struct{}),
		forbidden: map[string]bool{}, lists: map[string]int{}, limits: map[string][]int{}, streams: true,
	}
	s.serve("/api/v1/pods", "Pod")
	s.serve("/api/v1/limitranges", "LimitRange")
	s.serve("/apis/autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler")
	s.serve("/apis/apps/v1/replicasets", "ReplicaSet")
	s.start("127.0.0.1:0")
	t.Cleanup(s.stop)
	return s
}

// serve adds a resource.
func (s *apiServer) serve(path, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	group, name := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]
	group = strings.TrimPrefix(strings.TrimPrefix(group, "/apis/"), "/api/")
	s.served[path] = &served{
		kind: kind, apiVersion: group, objects: map[types.NamespacedName]metav1.Object{},
		resource: metav1.APIResource{Name: name, Kind: kind, Namespaced: kind != "Namespace", Verbs: metav1.Verbs{"get", "list", "watch"}},
	}
}

func (s *apiServer) start(at string) {
	listener, err := net.Listen("tcp", at)
	must(s.t, err)
	s.at = listener.Addr().String()
	s.http = &http.Server{Handler: s}
	go s.http.Serve(listener) //nolint:errcheck // stop ends it
}

// stop closes the server and all connections.
func (s *apiServer) stop() { s.http.Close() }

// put adds or changes an object.
func (s *apiServer) put(path string, object metav1.Object) { s.change(path, object, "") }

func (s *apiServer) remove(path string, object metav1.Object) { s.change(path, object, "DELETED") }

func (s *apiServer) change(path string, object metav1.Object, event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	served, key := s.served[path], types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	if event == "" {
		event = "ADDED"
		if _, ok := served.objects[key]; ok {
			event = "MODIFIED"
		}
		served.objects[key] = object
	} else {
		delete(served.objects, key)
	}
	served.log = append(served.log, logged{s.version, event, served.encode(object)})
	close(s.changed)
	s.changed = make(chan struct{})
}

// encode encodes an object as the API does; a kind that is watched by metadata has nothing else.
func (s *served) encode(object metav1.Object) []byte {
	accessor, err := meta.TypeAccessor(object)
	if err != nil {
		panic(err)
	}
	accessor.SetAPIVersion(s.apiVersion)
	accessor.SetKind(s.kind)
	if _, partial := object.(*metav1.PartialObjectMetadata); partial {
		accessor.SetAPIVersion("meta.k8s.io/v1")
		accessor.SetKind("PartialObjectMetadata")
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}

// cutWatches ends all watches; lost: past events cannot be watched any more.
func (s *apiServer) cutWatches(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost {
		s.version++
		for _, served := range s.served {
			served.log, served.oldest = nil, s.version
		}
	}
	close(s.cut)
	s.cut = make(chan struct{})
}

func (s *apiServer) forbid(path string, forbidden bool) {
	s.mu.Lock()
	s.forbidden[path] = forbidden
	s.mu.Unlock()
}

// freeze stops all answers, like a stopped process; thaw continues.
func (s *apiServer) freeze() (thaw func()) {
	frozen := make(chan struct{})
	s.mu.Lock()
	s.frozen = frozen
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.frozen = nil
		s.mu.Unlock()
		close(frozen)
	}
}

func (s *apiServer) listed(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[path]
}

// limitsOf are the limits of the requests for pages of a list.
func (s *apiServer) limitsOf(path string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.limits[path])
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	served, forbidden, frozen := s.served[r.URL.Path], s.forbidden[r.URL.Path], s.frozen
	s.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case forbidden:
		s.refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "pods is forbidden: User \"sluice\" cannot list resource")
	case served != nil && r.URL.Query().Get("watch") != "":
		s.watch(w, r, served)
	case served != nil:
		s.list(w, r, served)
	case strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/"):
		s.lease(w, r)
	case strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/"):
		s.takeEvent(w, r)
	default:
		s.discover(w, r.URL.Path)
	}
}

func (s *apiServer) refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	s.answer(w, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func (s *apiServer) answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(body) //nolint:errcheck // the client went
}

// list answers with a page. As an API server with a watch cache does, it ignores the limit beside
// version 0.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request, of *served) {
	path, asked := r.URL.Path, r.URL.Query()
	s.mu.Lock()
	after, limit := asked.Get("continue"), len(of.objects)
	if n, err := strconv.Atoi(asked.Get("limit")); err == nil && asked.Get("resourceVersion") == "" {
		limit = n
	}
	s.limits[path] = append(s.limits[path], limit)
	if after == "" {
		s.lists[path]++
	}
	items, next := []json.RawMessage{}, ""
	kind, apiVersion := of.kind+"List", of.apiVersion
	for _, name := range slices.SortedFunc(maps.Keys(of.objects), compareNamespacedNames) {
		object := of.objects[name]
		if name.String() <= after {
			continue
		}
		if len(items) == limit {
			next = after
			break
		}
		after = name.String()
		items = append(items, of.encode(object))
		if _, partial := object.(*metav1.PartialObjectMetadata); partial {
			kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
		}
	}
	body := map[string]any{
		"kind": kind, "apiVersion": apiVersion, "items": items,
		"metadata": map[string]string{"resourceVersion": strconv.Itoa(s.version), "continue": next},
	}
	s.mu.Unlock()
	s.answer(w, http.StatusOK, body)
}

func compareNamespacedNames(a, b types.NamespacedName) int {
	return cmp.Compare(a.String(), b.String())
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, of *served) {
	asked := r.URL.Query()
	streamed := asked.Get("sendInitialEvents") == "true"
	from, _ := strconv.Atoi(asked.Get("resourceVersion"))
	s.mu.Lock()
	cut, canStream, oldest := s.cut, s.streams, of.oldest
	s.mu.Unlock()
	if streamed && !canStream {
		s.refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if streamed {
		from = s.stream(w, r.URL.Path, of)
	} else if from < oldest {
		fmt.Fprintf(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}}`)
		return
	}
	for {
		s.mu.Lock()
		changed := s.changed
		for _, l := range of.log {
			if l.version > from {
				fmt.Fprintf(w, "{\"type\":%q,\"object\":%s}\n", l.event, l.object)
				from = l.version
			}
		}
		s.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream writes the list as events, with the bookmark at its end (KEP-3157).
func (s *apiServer) stream(w http.ResponseWriter, path string, of *served) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[path]++
	kind, apiVersion := of.kind, of.apiVersion
	for _, object := range of.objects {
		fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n", of.encode(object))
	}
	if of.apiVersion != "v1" && of.kind != "HorizontalPodAutoscaler" || of.kind == "Namespace" {
		kind, apiVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}}`+"\n",
		kind, apiVersion, s.version, metav1.InitialEventsAnnotationKey)
	return s.version
}

func (s *apiServer) takeEvent(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	event := &corev1.Event{}
	if r.Method == http.MethodPost {
		var decoded runtime.Object
		if decoded, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
			event = decoded.(*corev1.Event)
		}
	} else {
		err = json.Unmarshal(body, event)
	}
	if err != nil {
		s.refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	event.APIVersion, event.Kind = "v1", "Event"
	s.mu.Lock()
	if r.Method == http.MethodPost && slices.ContainsFunc(s.events, func(e *corev1.Event) bool { return e.Name == event.Name }) {
		s.mu.Unlock()
		s.refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, "events already exists")
		return
	}
	s.events = append(s.events, event)
	s.mu.Unlock()
	s.answer(w, http.StatusCreated, event)
}

// lease creates, reads and updates Leases.
func (s *apiServer) lease(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	if r.Method == http.MethodPost {
		path += "/" + testReplicas
	}
	held := s.leases[path]
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		next, ok := decoded.(*coordinationv1.Lease)
		switch {
		case err != nil || !ok:
			s.refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "not a Lease")
			return
		case held != nil && held.ResourceVersion != next.ResourceVersion:
			s.refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "the Lease was changed")
			return
		}
		s.version++
		next.ResourceVersion = strconv.Itoa(s.version)
		if s.leases == nil {
			s.leases = map[string]*coordinationv1.Lease{}
		}
		held, s.leases[path] = next, next
	}
	if held == nil {
		s.refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no Lease")
		return
	}
	held.APIVersion, held.Kind = "coordination.k8s.io/v1", "Lease"
	s.answer(w, http.StatusOK, held)
}

func (s *apiServer) discover(w http.ResponseWriter, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	found := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	seen := map[string]bool{}
	for at, served := range s.served {
		under := at[:strings.LastIndex(at, "/")]
		if under == path {
			found.GroupVersion = served.apiVersion
			found.APIResources = append(found.APIResources, served.resource)
		}
		if group, version, ok := strings.Cut(served.apiVersion, "/"); ok && !seen[served.apiVersion] {
			seen[served.apiVersion] = true
			g := metav1.GroupVersionForDiscovery{GroupVersion: served.apiVersion, Version: version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{
				Name: group, Versions: []metav1.GroupVersionForDiscovery{g}, PreferredVersion: g,
			})
		}
	}
	switch {
	case path == "/api":
		s.answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case path == "/apis":
		s.answer(w, http.StatusOK, groups)
	case len(found.APIResources) > 0:
		s.answer(w, http.StatusOK, found)
	default:
		s.refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
}

// client connects through a kubeconfig, as a user does.
func (s *apiServer) client(t *testing.T, cfg *Config) *Client {
	cfg.Kubeconfig = t.TempDir() + "/kubeconfig"
	content := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: "http://" + s.at}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test"}},
		CurrentContext: "test",
	}
	must(t, clientcmd.WriteToFile(content, cfg.Kubeconfig))
	client, err := Connect(*cfg, slog.New(slog.DiscardHandler))
	must(t, err)
	return client
}

// viewed is a running view with its log.
type viewed struct {
	*View
	*apiServer
	told *told
	logs *logtest.Buffer
}

// view runs a view of the server, with short backoffs, until the test ends.
func (s *apiServer) view(t *testing.T, kinds ...string) *viewed {
	return s.viewThat(t, func(v *View) {
		v.retryAfter(wait.Backoff{Duration: 20 * time.Millisecond, Cap: 50 * time.Millisecond, Factor: 1.5, Steps: 10})
	}, kinds...)
}

// viewThat is view with a preparation before Run.
func (s *apiServer) viewThat(t *testing.T, prepare func(*View), kinds ...string) *viewed {
	cfg := Config{ObjectKinds: kinds}
	logs := &logtest.Buffer{}
	v, err := NewView(s.client(t, &cfg), cfg, slog.New(slog.NewTextHandler(logs, nil)))
	must(t, err)
	prepare(v)
	told := &told{}
	v.Observe(told.observer())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Run did not end a minute after its context")
		}
	})
	return &viewed{View: v, apiServer: s, told: told, logs: logs}
}

func (v *viewed) waitSynced(t *testing.T) {
	t.Helper()
	eventually(t, "synced", func() bool { ok, _ := v.Synced(); return ok })
}

// eventually waits for a condition over the network, which virtual time cannot cover.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("never came: %s", what)
}
