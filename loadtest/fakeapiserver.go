package loadtest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// fakeAPIServer answers as a Kubernetes API server does to a server that watches a cluster. It
// serves discovery, lists and watches of a cluster in which nothing changes. It accepts every token
// and allows every request. It has no scheduler, no storage and no TLS.
//
// Protocol: https://kubernetes.io/docs/reference/using-api/api-concepts/ (watches, streaming
// lists).
type fakeAPIServer struct {
	pods      podSet
	resources []fakeResource
	server    *http.Server
	address   string
	ended     chan struct{} // ends the watches
}

// fakeResource is one resource that is listed and watched.
type fakeResource struct {
	path, name, kind string // "/api/v1", "pods", "Pod"
	clusterScoped    bool
	// under is the only namespace in which clients list the resource; empty: all namespaces.
	under string
	size  int
	// append appends one object, whole or the metadata only; nil if the resource has no objects.
	append func(dst []byte, i int) []byte
}

func startStandIn(pods podSet) (*fakeAPIServer, error) {
	authority, err := someAuthority()
	if err != nil {
		return nil, err
	}
	s := &fakeAPIServer{pods: pods, ended: make(chan struct{})}
	s.resources = []fakeResource{
		{path: "/api/v1", name: "pods", kind: "Pod", size: pods.size(), append: pods.appendPod},
		{path: "/api/v1", name: "namespaces", kind: "Namespace", clusterScoped: true, size: pods.namespaces,
			append: pods.appendNamespace},
		{path: "/api/v1", name: "configmaps", kind: "ConfigMap", under: "kube-system", size: 1,
			append: func(dst []byte, _ int) []byte {
				return append(dst, frontProxyConfig(authority)...)
			}},
		{path: "/api/v1", name: "services", kind: "Service"},
		{path: "/api/v1", name: "limitranges", kind: "LimitRange"},
		{path: "/apis/apps/v1", name: "deployments", kind: "Deployment"},
		{path: "/apis/apps/v1", name: "statefulsets", kind: "StatefulSet"},
		{path: "/apis/networking.k8s.io/v1", name: "ingresses", kind: "Ingress"},
		{path: "/apis/autoscaling/v2", name: "horizontalpodautoscalers", kind: "HorizontalPodAutoscaler"},
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.address = listener.Addr().String()
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(listener) }() // stop ends it
	return s, nil
}

func (s *fakeAPIServer) stop() error {
	close(s.ended)
	return s.server.Close()
}

// writeKubeconfig writes a kubeconfig for the fake API server and returns its path.
func (s *fakeAPIServer) writeKubeconfig(dir string) (string, error) {
	path := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","current-context":"load","contexts":[{"name":"load","context":{"cluster":"load"}}],`+
		`"clusters":[{"name":"load","cluster":{"server":"http://%s"}}]}`, s.address)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// ServeHTTP implements http.Handler.
func (s *fakeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/tokenreviews"):
		_, _ = io.WriteString(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":true,"user":{"username":"loadtest"}}}`)
		return
	case strings.HasSuffix(path, "/subjectaccessreviews"):
		_, _ = io.WriteString(w, `{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`)
		return
	case r.Method != http.MethodGet: // an Event
		_, _ = io.WriteString(w, `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"default"}}`)
		return
	}
	for i := range s.resources {
		resource := &s.resources[i]
		if path != resource.at() {
			continue
		}
		if r.URL.Query().Get("watch") == "" {
			s.list(w, r, resource)
		} else {
			s.watch(w, r, resource)
		}
		return
	}
	s.discover(w, path)
}

func (r *fakeResource) at() string {
	if r.under != "" {
		return r.path + "/namespaces/" + r.under + "/" + r.name
	}
	return r.path + "/" + r.name
}

// types returns the kind and apiVersion that the request wants for the resource's objects.
func (r *fakeResource) types(req *http.Request) (kind, apiVersion string) {
	if strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	_, version, _ := strings.Cut(strings.TrimPrefix(r.path, "/"), "/")
	return r.kind, version
}

func (s *fakeAPIServer) list(w io.Writer, r *http.Request, f *fakeResource) {
	out := bufio.NewWriterSize(w, 64<<10)
	kind, apiVersion := f.types(r)
	fmt.Fprintf(out, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[`, kind, apiVersion)
	var object []byte
	for i := range f.size {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		object = f.append(object[:0], i)
		_, _ = out.Write(object)
	}
	_, _ = out.WriteString("]}")
	_ = out.Flush() // the client may have left
}

// watch streams the list and a bookmark if the request asks for them, and then stays silent.
func (s *fakeAPIServer) watch(w http.ResponseWriter, r *http.Request, f *fakeResource) {
	out := bufio.NewWriterSize(w, 64<<10)
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		var object []byte
		for i := range f.size {
			object = f.append(append(object[:0], `{"type":"ADDED","object":`...), i)
			_, _ = out.Write(append(object, '}', '\n'))
		}
		kind, apiVersion := f.types(r)
		fmt.Fprintf(out, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n",
			kind, apiVersion)
	}
	if out.Flush() != nil || http.NewResponseController(w).Flush() != nil {
		return // the client has left
	}
	select {
	case <-s.ended:
	case <-r.Context().Done():
	}
}

// discover answers a discovery request with the resources or groups that exist.
func (s *fakeAPIServer) discover(w http.ResponseWriter, path string) {
	type named map[string]any
	var resources, groups []named
	seen := map[string]bool{}
	for i := range s.resources {
		r := &s.resources[i]
		if r.path == path {
			resources = append(resources, named{"name": r.name, "kind": r.kind, "namespaced": !r.clusterScoped,
				"verbs": []string{"get", "list", "watch"}})
		}
		of, isGroup := strings.CutPrefix(r.path, "/apis/")
		if group, version, _ := strings.Cut(of, "/"); isGroup && !seen[of] {
			seen[of] = true
			preferred := named{"groupVersion": of, "version": version}
			groups = append(groups, named{"name": group, "versions": []named{preferred}, "preferredVersion": preferred})
		}
	}
	var answer any
	switch {
	case path == "/api":
		answer = named{"kind": "APIVersions", "versions": []string{"v1"}}
	case path == "/apis":
		answer = named{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
	case len(resources) > 0:
		_, version, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		answer = named{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
	default:
		w.WriteHeader(http.StatusNotFound)
		answer = named{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
			"message": "the fake API server has no " + path}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// frontProxyConfig returns the ConfigMap with the front proxy's certificate authority. Nobody has
// the authority's key.
func frontProxyConfig(authority string) string {
	text, err := json.Marshal(map[string]any{
		"kind": "ConfigMap", "apiVersion": "v1",
		"metadata": map[string]string{"name": "extension-apiserver-authentication", "namespace": "kube-system", "uid": "1",
			"resourceVersion": "1"},
		"data": map[string]string{
			"requestheader-client-ca-file": authority, "requestheader-allowed-names": `["front-proxy-client"]`,
			"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	})
	if err != nil {
		panic(err) // strings are always JSON
	}
	return string(text)
}

// someAuthority makes a certificate authority and discards its key.
func someAuthority() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", errors.Join(errors.New("make an authority"), err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

// podSet is the numbered pods of the fake API server, equally many in each namespace. A pod's JSON
// is made on request.
type podSet struct {
	namespaces, each int
	// selected is the number of pods in each namespace with the labels that selectedPods matches:
	// the first ones.
	selected int
}

// selectedPods is the label selector of the selected pods.
const selectedPods = "app=web"

func (p podSet) size() int { return p.namespaces * p.each }

func (p podSet) namespace(pod int) string { return podNamespace(pod / p.each) }

func podNamespace(n int) string { return "load-" + strconv.Itoa(n) }

func (p podSet) name(pod int) string { return "web-" + strconv.Itoa(pod%p.each) }

// address returns the pod's IP address. All of 127.0.0.0/8 is this machine, so lines can be sent
// from a pod's address without any setup. Nothing else uses addresses from 127.1.0.1 on.
func (p podSet) address(pod int) netip.Addr {
	n := uint32(pod) + 1
	return netip.AddrFrom4([4]byte{127, byte(1 + n>>16), byte(n >> 8), byte(n)})
}

// appendPod appends a pod as JSON, with the fields that a watcher of pods reads.
func (p podSet) appendPod(dst []byte, pod int) []byte {
	app := "web"
	if pod%p.each >= p.selected {
		app = "other"
	}
	address, node := p.address(pod), pod%5000
	return fmt.Appendf(dst, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"00000000-0000-4000-8000-%012x",`+
		`"resourceVersion":"1","creationTimestamp":"2025-01-01T00:00:00Z","labels":{"app":%q,"pod-template-hash":"6b7c8d9e0f"}},`+
		`"spec":{"serviceAccountName":"default","nodeName":"node-%d","containers":[{"name":"app","image":"app"}]},`+
		`"status":{"phase":"Running","hostIP":"192.168.%d.%d","podIP":%q,"podIPs":[{"ip":%q}],`+
		`"containerStatuses":[{"name":"app","image":"app","imageID":"","ready":true,"restartCount":0,"containerID":"containerd://%064x"}]}}`,
		p.name(pod), p.namespace(pod), pod, app, node, node>>8, node&255, address, address, pod)
}

// appendNamespace appends a namespace's metadata: clients ask for nothing else.
func (p podSet) appendNamespace(dst []byte, n int) []byte {
	return fmt.Appendf(dst, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":%q,`+
		`"uid":"00000000-0000-4000-9000-%012x","resourceVersion":"1","creationTimestamp":"2025-01-01T00:00:00Z"}}`,
		podNamespace(n), n)
}
