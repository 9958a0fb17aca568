package inspect

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// List is an answer of the API group: a page of documents in the form of Kubernetes' lists. The
// documents carry metadata with their name and namespace beside their fields.
type List[T any] struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Metadata   ListMeta `json:"metadata"`
	Items      []T      `json:"items"`
}

// ListMeta is the metadata of a List.
type ListMeta struct {
	// Continue is the token of the next page; empty: this is the last one.
	Continue string `json:"continue,omitempty"`
}

// OpenAPIModelName names the list in an OpenAPI document.
func (List[T]) OpenAPIModelName() string { return modelPrefix + reflect.TypeFor[T]().Name() + "List" }

// OpenAPIModelName names the document in an OpenAPI document.
func (Autoscaler) OpenAPIModelName() string { return modelPrefix + "Autoscaler" }

// OpenAPIModelName names the document in an OpenAPI document.
func (MetricDetail) OpenAPIModelName() string { return modelPrefix + "MetricDetail" }

const modelPrefix = "dev.sluice.inspect." + Version + "."

// Meta is the metadata of a document.
type Meta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// Document is what lists show. A pointer to each document implements it.
type Document interface {
	Meta() Meta
	// Cells are the values of the list's columns, as of a moment.
	Cells(now time.Time) []string
	// Fault says what is wrong, for people; empty: nothing is.
	Fault() string
}

// Resource is a list of the API group.
type Resource struct {
	Name     string // plural, as in paths
	Singular string
	Kind     string // of a document; a list's is Kind with "List"
	// Doc describes a document, in a sentence.
	Doc     string
	Columns []Column
	// Identity is the number of columns that, with the namespace, identify a document: the first
	// ones.
	Identity int
	New      func() Document // makes an empty document
	List     any             // an empty page
}

// listOf is the list of one type of document.
func listOf[T any, P interface {
	*T
	Document
}](name, singular string, identity int, doc string, columnNames ...string) Resource {
	return Resource{Name: name, Singular: singular, Kind: reflect.TypeFor[T]().Name(), Doc: doc,
		Columns: columns(columnNames), Identity: identity, New: func() Document { return P(new(T)) }, List: List[T]{}}
}

// Cluster reports whether documents belong to no namespace, so there is no list of one.
func (r *Resource) Cluster() bool { return r.Name == "agents" }

// Column is a column of the table of a list.
type Column struct {
	Name string
	Wide bool // shown on demand
}

// GroupVersion is the API version of all documents.
const GroupVersion = Group + "/" + Version

// Resources are the lists of the API group. "limits" is kubectl's short name of LimitRanges, which a
// resource of that name would hide.
var Resources = []Resource{
	listOf[Metric]("metrics", "metric", 2, "One name in one namespace, on objects of one resource or external.",
		"NAME", "OF", "KIND", "OBJECTS", "SERIES", "LAST SAMPLE", "READ BY", "+VALUE", "+LABELS", "+STATS"),
	listOf[Object]("objects", "object", 1, "An object that has series.",
		"NAME", "METRICS", "SERIES", "LAST SAMPLE", "+METRIC NAMES"),
	listOf[Sender]("senders", "sender", 2, "A pod, an account or an address that pushes to the replica that answers.",
		"NAME", "SORT", "SERIES", "REJECTED SAMPLES", "LAST HEARD", "+PUSHES"),
	listOf[Rejection]("rejections", "rejection", 3,
		"Samples that the replica that answers has rejected, of one sender and metric and for one reason.",
		"METRIC", "SENDER", "REASON", "SAMPLES", "LAST", "MESSAGE", "+RECEIVER", "+FIRST", "+EXAMPLE"),
	listOf[PushedGroup]("groups", "group", 2, "A group of the Pushgateway API.",
		"JOB", "LABELS", "FAMILIES", "SERIES", "LAST PUSH", "LAST FAILURE"),
	listOf[Limit]("limituses", "limituse", 1, "The use of the limits of a pod, or of a namespace without its pods.",
		"OF", "METRICS", "SERIES", "REJECTED SERIES", "SET BY", "+HELD BY", "+WANTED"),
	listOf[Autoscaler]("autoscalers", "autoscaler", 1, "A HorizontalPodAutoscaler, with Sluice's answer for each of its metrics.",
		"NAME", "SCALES", "METRICS", "MIN", "MAX", "REPLICAS", "WANTED", "+WHY"),
	listOf[Rule]("rules", "rule", 1, "A rule that computes a metric from others, or renames metrics, with its last value at the replica that answers.",
		"NAME", "METRIC", "FROM", "VALUE", "OF", "STATE", "+EXPRESSION"),
	listOf[Target]("targets", "target", 3, "An endpoint that a pod announces, with how its scrapes go.",
		"POD", "ENDPOINT", "NAMES", "STATE", "LAST SUCCESS", "ERROR", "+INTERVAL", "+SAMPLES", "+BYTES", "+MISSING", "+AGENT"),
	listOf[Policy]("policies", "policy", 1, "An ExternalMetricPolicy or a ClusterExternalMetricPolicy, as it is in force.",
		"NAME", "READERS", "RULES", "STATE", "+EACH RULE"),
	listOf[Agent]("agents", "agent", 1, "The agent of a node that reports to the replica that answers, or did within the last hour.",
		"NODE", "STATE", "SINCE", "SERIES", "SAMPLES", "LAG", "REJECTED SAMPLES", "LAST REJECTION", "+VERSION", "+LAST FRAME", "+MESSAGE"),
}

// columns makes columns of names; "+" marks a wide one.
func columns(names []string) (all []Column) {
	for _, name := range names {
		if name[0] == '+' {
			all = append(all, Column{name[1:], true})
		} else {
			all = append(all, Column{name, false})
		}
	}
	return all
}

// ResourceNamed returns a list by its name or singular.
func ResourceNamed(name string) (Resource, bool) {
	for _, resource := range Resources {
		if resource.Name == name || resource.Singular == name {
			return resource, true
		}
	}
	return Resource{}, false
}

// Key is the position of an item in its list: first the namespace, then what distinguishes items of
// a namespace, most often the name first. The zero Key is before all items.
type Key [4]string

// Compare compares two keys.
func (k *Key) Compare(other *Key) int {
	return cmp.Or(strings.Compare(k[0], other[0]), strings.Compare(k[1], other[1]),
		strings.Compare(k[2], other[2]), strings.Compare(k[3], other[3]))
}

// Keys of the documents that Paged pages.
func (s *Sender) Key() Key     { return Key{s.Namespace, s.Name, s.Sort} }
func (a *Autoscaler) Key() Key { return Key{a.Namespace, a.Name} }
func (a *Agent) Key() Key      { return Key{"", a.Node} }
func (r *Rejection) Key() Key {
	return Key{r.Namespace, r.Sender, r.Receiver, r.Reason + " " + r.Metric}
}

// ErrToken is the error of a token that ParseToken cannot read.
var ErrToken = errors.New("is not a token of this list")

// maxToken is the longest token, in bytes: a key holds labels of a group at most.
const maxToken = 128 << 10

// Token writes a key for the parameter "continue" of the next request; zero: empty. It is no
// secret, and proves nothing: a client that makes one up only chooses where its page begins. Names
// need not be UTF-8, so it is not JSON.
func (k Key) Token(list string) string {
	if k == (Key{}) {
		return ""
	}
	raw := appendPiece(nil, list)
	for _, piece := range k {
		raw = appendPiece(raw, piece)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func appendPiece(raw []byte, piece string) []byte {
	return append(binary.AppendUvarint(raw, uint64(len(piece))), piece...)
}

func cutPiece(raw []byte) (piece string, rest []byte, ok bool) {
	n, used := binary.Uvarint(raw)
	if used <= 0 || n > uint64(len(raw)-used) {
		return "", nil, false
	}
	return string(raw[used : used+int(n)]), raw[used+int(n):], true
}

// ParseToken reads a token of a list. The empty token is the zero Key.
func ParseToken(list, text string) (k Key, err error) {
	if text == "" {
		return Key{}, nil
	}
	if len(text) > maxToken {
		return Key{}, ErrToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Key{}, ErrToken
	}
	of, raw, ok := cutPiece(raw)
	for i := range k {
		if ok {
			k[i], raw, ok = cutPiece(raw)
		}
	}
	if !ok || len(raw) > 0 || of != list || k == (Key{}) {
		return Key{}, ErrToken
	}
	return k, nil
}

// labelText prints labels as kubectl does: sorted, "a=1,b=2".
func labelText(labels map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(key + "=" + labels[key])
	}
	return b.String()
}
