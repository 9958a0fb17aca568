package adapter

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// controlPlane implements the parts of an API server that delegation uses: TokenReview,
// SubjectAccessReview, and the front proxy's ConfigMap, listed and watched.
type controlPlane struct {
	*httptest.Server
	proxyCA *authority

	mu   sync.Mutex
	away bool
	held chan struct{} // if set, SubjectAccessReviews are answered once it is closed
	// heldTokens, if set, is the same for TokenReviews.
	heldTokens chan struct{}
	tokens     map[string]string                                 // user by token
	extra      map[string]map[string]authenticationv1.ExtraValue // by user
	meant      map[string][]string                               // audiences by token; none: the API server, which the answer does not name
	rights     map[string][]string                               // by user: "verb group/resource[/subresource][ name] in namespace"
	reviews    []string                                          // requests, in order
	config     map[string]string                                 // the ConfigMap; nil: none
	version    int
	changed    chan struct{} // closed with every change
}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	c := &controlPlane{
		proxyCA: newAuthority(t),
		tokens:  map[string]string{},
		rights:  map[string][]string{},
		changed: make(chan struct{}),
	}
	c.config = map[string]string{
		proxyCAKey:     string(c.proxyCA.pem),
		proxyNamesKey:  `["front-proxy"]`,
		proxyUsersKey:  `["X-Remote-User"]`,
		proxyGroupsKey: `["X-Remote-Group"]`,
		proxyExtrasKey: `["X-Remote-Extra-"]`,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", c.reviewToken)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", c.reviewAccess)
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/configmaps", c.configMaps)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		away := c.away
		c.mu.Unlock()
		if away {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *controlPlane) rest() *rest.Config { return &rest.Config{Host: c.URL} }

// set changes anything, and wakes the watches.
func (c *controlPlane) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.version++
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *controlPlane) asked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reviews)
}

func (c *controlPlane) reviewToken(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	user, ok := c.tokens[review.Spec.Token]
	c.reviews = append(c.reviews, "token "+review.Spec.Token)
	held := c.heldTokens
	c.mu.Unlock()
	if held != nil {
		<-held
	}
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: user, Extra: c.extra[user]}}
	for _, one := range c.meant[review.Spec.Token] {
		if slices.Contains(review.Spec.Audiences, one) {
			review.Status.Audiences = append(review.Status.Audiences, one)
		}
	}
	reply(w, review)
}

func (c *controlPlane) reviewAccess(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	right := "nothing"
	if a := review.Spec.ResourceAttributes; a != nil {
		right = a.Verb + " " + a.Group + "/" + a.Resource
		if a.Subresource != "" {
			right += "/" + a.Subresource
		}
		right += " in " + a.Namespace
	} else if a := review.Spec.NonResourceAttributes; a != nil {
		right = a.Verb + " " + a.Path
	}
	c.mu.Lock()
	c.reviews = append(c.reviews, review.Spec.User+": "+right)
	review.Status.Allowed = slices.Contains(c.rights[review.Spec.User], right)
	held := c.held
	c.mu.Unlock()
	if held != nil {
		<-held
	}
	reply(w, review)
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// configMap returns the current object, nil if there is none, and a channel that is closed by the
// next change.
func (c *controlPlane) configMap() (*corev1.ConfigMap, string, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	version := fmt.Sprint(c.version + 1)
	if c.config == nil {
		return nil, version, c.changed
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: proxyNamespace, Name: proxyConfigMap, ResourceVersion: version},
		Data:       c.config,
	}, version, c.changed
}

func (c *controlPlane) configMaps(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("fieldSelector") != "metadata.name="+proxyConfigMap {
		http.Error(w, "RBAC gives that one ConfigMap only", http.StatusForbidden)
		return
	}
	object, version, changed := c.configMap()
	if query.Get("watch") == "" {
		list := corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, ListMeta: metav1.ListMeta{ResourceVersion: version}}
		if object != nil {
			list.Items = append(list.Items, *object)
		}
		reply(w, list)
		return
	}
	events := json.NewEncoder(w)
	event := func(kind string, object any) {
		_ = events.Encode(map[string]any{"type": kind, "object": object})
		_ = http.NewResponseController(w).Flush()
	}
	w.Header().Set("Content-Type", "application/json")
	if query.Get("sendInitialEvents") == "true" {
		if object != nil {
			event("ADDED", object)
		}
		event("BOOKMARK", &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			},
		})
	} else {
		_ = http.NewResponseController(w).Flush()
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			if object, _, changed = c.configMap(); object != nil {
				event("MODIFIED", object)
			}
		}
	}
}

// authority signs client certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	ca := template("authority "+t.Name(), time.Now())
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	must(t, err)
	ca, err = x509.ParseCertificate(der)
	must(t, err)
	return &authority{certificate: ca, key: key, pem: pemOf("CERTIFICATE", der)}
}

func (a *authority) client(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	leaf := template(name, time.Now())
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.certificate, key.Public(), a.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// caller sends requests with headers and, if set, a certificate.
type caller struct {
	certificate *tls.Certificate
	headers     []string // name, value, …
	from        net.IP   // nil: any
}

// noHandshake is the code of a request whose certificate the server refuses.
const noHandshake = 0

func (a *api) as(t *testing.T, who caller, path string) (*http.Response, metav1.Status) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: who.from}}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: dialer.DialContext}
	if who.certificate != nil {
		// Sent whichever authorities the server names, as some clients do.
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return who.certificate, nil
		}
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+path, nil)
	must(t, err)
	for i := 0; i < len(who.headers); i += 2 {
		req.Header.Add(who.headers[i], who.headers[i+1])
	}
	resp, err := transport.RoundTrip(req)
	if err != nil && who.certificate != nil {
		return &http.Response{StatusCode: noHandshake}, metav1.Status{Message: err.Error()}
	}
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	var status metav1.Status
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		must(t, json.NewDecoder(resp.Body).Decode(&status))
	}
	return resp, status
}
